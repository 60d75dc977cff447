// Asking for the access token.

import { token } from "./api.js";
import { fill, fresh, h } from "./dom.js";

/** What a program is told, for a person: without how a program sends a token. */
const sentence = (why) => {
  const said = why.split(";")[0];
  return `${said[0].toUpperCase()}${said.slice(1)}.`;
};

let open = null; // one question at a time, however many requests need the answer

/** Ask until something is given. `why` says what was wrong with the last one, if there was one. */
export function askToken(why) {
  open ??= new Promise((resolve) => {
    const id = fresh("token");
    const input = h("input", { id, type: "password", required: true, autocomplete: "off", spellcheck: "false" });
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: `${id}-title` }, "Access token"),
      h("p", {}, "This service requires a token. Its administrator makes one with ", h("code", {}, "holdcourse token"), "."),
      why && h("p", { class: "problem", role: "alert" }, sentence(why)),
      h("p", { class: "field" }, h("label", { for: id }, "Token"), input),
      h("p", { class: "small" }, "It is kept in this tab only, and forgotten when you close it."),
      h("p", { class: "buttons" }, h("button", { class: "primary", type: "submit" }, "Continue")),
    );
    const dialog = h("dialog", { "aria-labelledby": `${id}-title` }, form);
    form.addEventListener("submit", () => {
      token.set(input.value.trim());
      document.getElementById("forget").hidden = false;
    });
    dialog.addEventListener("cancel", (event) => event.preventDefault()); // nothing can be shown without it
    dialog.addEventListener("close", () => {
      dialog.remove();
      open = null;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
  return open;
}

/** The button that forgets the token. */
export function offerToForget() {
  const button = document.getElementById("forget");
  button.hidden = !token.get();
  button.addEventListener("click", () => {
    token.forget();
    fill(document.getElementById("main"));
    location.reload();
  });
}
