// The record on disk: check it, or save a copy.

import { get, pathOf, send } from "./api.js";
import { fill, h } from "./dom.js";
import { plural } from "./words.js";
import { working } from "./working.js";

/** `at(id, what)` is where the record is; whoever may not save a copy is not offered one. */
export function recordPanel(id, at = pathOf) {
  const answer = h("p", { class: "small", role: "status" });
  const work = working();

  const busy = (task, words) => async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    fill(answer, words);
    try {
      fill(answer, await task());
    } catch (refused) {
      fill(answer, h("span", { class: "problem" }, refused.message));
    }
    work.end();
    button.disabled = false;
    button.focus();
  };

  const verify = async () => {
    const found = await get(at(id, "verify"), work.report);
    const size = plural(found.events, "event") + (at === pathOf ? ` in ${plural(found.epochs, "epoch")}` : "");
    return found.ok ? `The record is complete, ${size}: ${found.message}.` : h("span", { class: "problem" }, `${found.message} (${size})`);
  };

  const save = async () => {
    const copy = await (await send(at(id, "backup"))).blob();
    const address = URL.createObjectURL(copy);
    h("a", { href: address, download: `${id}.zip` }).click();
    URL.revokeObjectURL(address);
    return "A copy was saved.";
  };

  const copies = h("button", { type: "button", hidden: true, onclick: busy(save, "Copying …") }, "Save a copy");
  const node = h(
    "div",
    {},
    h("p", { class: "small" }, "Every decision, measurement and change is on disk before it is answered, chained so that nothing can be altered unnoticed."),
    h(
      "p",
      { class: "buttons" },
      h("button", { type: "button", onclick: busy(verify, "Checking …") }, "Check the record"),
      copies,
    ),
    work.node,
    answer,
  );
  return { node, update: ({ admin }) => (copies.hidden = !admin) };
}
