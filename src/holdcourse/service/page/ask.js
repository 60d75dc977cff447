// A dialog that asks before something is done, does it, and stays open with the reason when it was refused.

import { cancelJob } from "./api.js";
import { fresh, h } from "./dom.js";
import { working } from "./working.js";

/**
 * Ask. `body` are elements with the form's fields; `act(form, report)` does what was confirmed and may be refused.
 * Where that is a job, `report` shows how far it is, and Cancel ends it.
 * Resolves to what `act` gave, or to null when the reader changed their mind. Focus goes back to where it was.
 */
export function ask({ title, body, confirm, act, wide = false }) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const id = fresh("dialog");
    const problem = h("p", { class: "problem", role: "alert", hidden: true });
    const work = working();
    const cancel = async () => {
      if (!work.job) return dialog.close();
      await cancelJob(work.job).catch(() => {}); // too late: it is done, or has failed, and says so itself
    };
    const go = h("button", { class: "primary", type: "submit" }, confirm);
    const form = h(
      "form",
      {},
      h("h2", { id }, title),
      body,
      problem,
      work.node,
      h("p", { class: "buttons" }, h("button", { type: "button", onclick: cancel }, "Cancel"), go),
    );
    const dialog = h("dialog", { "aria-labelledby": id, class: wide ? "wide" : null }, form);
    let result = null;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      problem.hidden = true;
      try {
        result = await act(form, work.report);
        dialog.close();
      } catch (refused) {
        work.end();
        problem.textContent = refused.message;
        problem.hidden = false;
        go.disabled = false;
        problem.scrollIntoView({ block: "nearest" });
      }
    });
    dialog.addEventListener("cancel", (event) => work.job && event.preventDefault()); // Escape: the job would go on unseen
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before?.isConnected) before.focus();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("[autofocus]") ?? form.querySelector("input, select, textarea") ?? go).focus();
  });
}

/** A field with its label above it, and a hint below. */
export function field(label, input, hint = null) {
  const id = input.id || fresh("field");
  input.id = id;
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return h("p", { class: "field" }, h("label", { for: id }, label), input, hint && h("span", { class: "small", id: `${id}-hint` }, hint));
}
