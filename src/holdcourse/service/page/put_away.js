// Putting a controller away, bringing it back, and deleting it for good.

import { destroy, pathOf, post } from "./api.js";
import { ask, field } from "./ask.js";
import { timeOf } from "./badges.js";
import { announce, drawn, h } from "./dom.js";
import { authorOf, plural } from "./words.js";

const why = () => field("Reason", h("input", { name: "reason", maxlength: 500, autocomplete: "off", required: true, pattern: ".*\\S.*", autofocus: true }), "This goes into the record with your token's name.");
const reasonOf = (form) => form.elements.reason.value.trim();

const archive = (state) =>
  ask({
    title: `Archive ${state.name}?`,
    body: [
      h("p", {}, "From then on you can only look at it: questions, measurements and changes are refused, and its silence raises no alarm. Nothing is lost, and you can bring it back."),
      state.pending.length > 0 && h("p", { class: "careful" }, `${plural(state.pending.length, "decision still waits", "decisions still wait")} for a measurement: enter or skip it first.`),
      why(),
    ],
    confirm: "Archive",
    act: (form) => post(pathOf(state.id, "archive"), { reason: reasonOf(form) }),
  });

const restore = (state) =>
  ask({
    title: `Bring ${state.name} back?`,
    body: [h("p", {}, "It continues where it was, in the same mode, and its deadlines are restarted."), why()],
    confirm: "Bring back",
    act: (form) => post(pathOf(state.id, "restore"), { reason: reasonOf(form) }),
  });

const remove = (state) =>
  ask({
    title: `Delete ${state.name} for good?`,
    body: [
      h("p", { class: "careful" }, `All its records are removed: ${plural(state.round, "round")} in ${plural(state.epoch, "epoch")}. This cannot be undone. Save a copy first if anybody might need them.`),
      why(),
      field("Type its name", h("input", { name: "typed", maxlength: 200, autocomplete: "off", spellcheck: "false", required: true }), `To be sure: ${state.name}`),
    ],
    confirm: "Delete for good",
    act: (form) => {
      if (form.elements.typed.value !== state.name) throw new Error(`Type the name as it is: ${state.name}`);
      return destroy(`${pathOf(state.id)}?${new URLSearchParams({ name: state.name, reason: reasonOf(form) })}`);
    },
  });

/** `done` is called after it was archived or brought back, `gone` after it was deleted. */
export function putAway(done, gone) {
  const node = h("div", {});
  let now = null;
  const run = (question, words, then) => async () => {
    if ((await question(now)) === null) return;
    announce(words);
    await then();
    if (document.activeElement === document.body) node.querySelector("button")?.focus();
  };
  const button = (text, act, kind = "") => h("button", { type: "button", class: kind, onclick: act }, text);
  const draw = drawn(node, (archived, admin) => {
    if (!archived) {
      return [
        h("p", { class: "small" }, "Archive the controller of a machine that is out of use: its records stay and can be looked at, and it is listed separately."),
        admin && h("p", { class: "buttons" }, button("Archive …", run(archive, "The controller has been archived.", done))),
      ];
    }
    const reason = archived.reason ? `: ${archived.reason}` : "";
    return [
      h("p", {}, h("b", {}, "Archived "), timeOf(archived.at), ` by ${authorOf(archived.by)}${reason}.`),
      admin &&
        h(
          "p",
          { class: "buttons" },
          button("Bring back …", run(restore, "The controller is back.", done), "primary"),
          button("Delete for good …", run(remove, "The controller has been deleted.", gone), "grave"),
        ),
    ];
  });
  return {
    node,
    update(state, { admin }) {
      now = state;
      draw(state.archived, admin);
    },
  };
}
