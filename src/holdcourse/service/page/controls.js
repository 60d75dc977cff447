// What an operator may do: switch the mode, hold the machine at one setting, let go again.

import { patch, pathOf, post } from "./api.js";
import { ask, field } from "./ask.js";
import { announce, drawn, h } from "./dom.js";
import { authorOf, MODES, modeOf, number, setting, withUnit } from "./words.js";

const reasonInput = () => h("input", { name: "reason", maxlength: 500, autocomplete: "off" });
const reasonField = () => field("Reason", reasonInput(), "This goes into the record. You may leave it empty.");
const reasonOf = (form) => form.elements.reason.value.trim();
const whyField = () => field("Reason", h("input", { name: "reason", maxlength: 500, autocomplete: "off", required: true, pattern: ".*\\S.*" }), "This goes into the record with your token's name.");

function switchMode(state, mode) {
  const { word, long } = modeOf(mode);
  return ask({
    title: `Switch to ${word}?`,
    body: [
      h("p", {}, long),
      mode === "act" && h("p", { class: "careful" }, "From the next decision on, the machine follows without confirmation."),
      mode === "act" ? whyField() : reasonField(),
    ],
    confirm: `Switch to ${word}`,
    act: (form) => post(pathOf(state.id, "mode"), { mode, reason: reasonOf(form) }),
  });
}

/**
 * Do it, unless somebody else has held or released the machine since the dialog was opened: then say so first. Whoever
 * presses the button again has read it.
 */
function unlessHeldMeanwhile(state, present, act) {
  const of = ({ override }) => JSON.stringify(override && [override.setting, override.since, override.reason]);
  let seen = of(state);
  return (form) => {
    const now = present();
    if (of(now) === seen) return act(form);
    seen = of(now);
    const { override, units } = now;
    const done = override ? `${authorOf(override.by)} has held it at ${setting(override.setting, units?.action)}${override.reason ? ` (${override.reason})` : ""}` : "somebody has released it";
    throw new Error(`While this dialog was open, ${done}. If you still want to do this, press the button again.`);
  };
}

function takeOver(state, present) {
  const unit = state.units?.action;
  const options = state.actions.map((value, i) => h("option", { value: String(i) }, setting(value, unit)));
  const select = h("select", { name: "action", autofocus: true }, options);
  select.value = String(state.override?.action ?? state.instruction?.action ?? state.action ?? 0);
  const reason = reasonInput();
  const force = h("input", { type: "checkbox", name: "force", onchange: () => (reason.required = force.checked) });
  return ask({
    title: "Hold the machine at one setting?",
    body: [
      h("p", {}, "It stays there, whatever is decided, until you release it. Decisions and measurements are still recorded."),
      h("p", { class: "small" }, "It goes only where the limits and the newest request allow, in steps if necessary."),
      field("Setting", select),
      field("Reason", reason, "This goes into the record. You may leave it empty unless you force the move."),
      h("p", { class: "careful" }, h("label", {}, force, " Force: go there at once, whatever the limits say. Then say why above.")),
    ],
    confirm: "Hold it there",
    act: unlessHeldMeanwhile(state, present, (form) => post(pathOf(state.id, "override"), { setting: state.actions[Number(select.value)], reason: reasonOf(form), force: force.checked })),
  });
}

function release(state, present) {
  const held = setting(state.override.setting, state.units?.action);
  const { word, long } = modeOf(state.mode);
  return ask({
    title: "Hand control back?",
    body: [
      h("p", {}, `The machine is no longer held at ${held}. The mode is `, h("b", {}, word), `: ${long}`),
      reasonField(),
    ],
    confirm: "Release",
    act: unlessHeldMeanwhile(state, present, (form) => post(pathOf(state.id, "override"), { setting: null, reason: reasonOf(form) })),
  });
}

/** The policy and something else take turns, so that the gain is measured. */
function beginTrial(state) {
  const unit = state.units?.action;
  const fixed = state.actions.map((value, i) => h("option", { value: String(i) }, `always ${setting(value, unit)}`));
  const others = [h("option", { value: "stay" }, "staying where it is"), h("option", { value: "people" }, "people run the machine")];
  const against = h("select", { name: "against", autofocus: true }, others, fixed);
  const block = h("input", { name: "block", required: true, value: "6", maxlength: 20, autocomplete: "off" });
  const heard = h("input", { name: "heard", type: "number", required: true, min: 0, max: 100, step: "any", value: "100" });
  const terms = () => {
    if (against.value === "stay") return {};
    return against.value === "people" ? { operators: true } : { baseline: state.actions[Number(against.value)] };
  };
  const length = () => (/^\d+$/.test(block.value.trim()) ? Number(block.value) : block.value.trim());
  return ask({
    title: "Begin a trial?",
    body: [
      h("p", {}, "The policy and the baseline take turns in blocks of rounds; which of them begins is drawn at random for each pair of blocks. This measures the gain instead of estimating it."),
      h("p", { class: "small" }, "Limits and overrides work as always, and the policy goes on learning. A new epoch of the record begins. The command holdcourse trial plan says how long a block should be and how many weeks the trial takes."),
      field("Against", against),
      field("Length of a block", block, "In rounds, or as a time such as 6 h if the length of a round is known."),
      field("Share of the other's blocks to learn from, in %", heard, "Take the share from the trial's plan; without a plan, leave 100."),
      reasonField(),
    ],
    confirm: "Begin the trial",
    act: (form) => patch(pathOf(state.id), { trial: { block: length(), heard: Number(heard.value) / 100, ...terms() }, reason: reasonOf(form) }),
  });
}

function endTrial(state) {
  return ask({
    title: "End the trial?",
    body: [h("p", {}, "From the next decision on, the policy alone is in charge. The measurements stay in the record."), reasonField()],
    confirm: "End the trial",
    act: (form) => patch(pathOf(state.id), { trial: null, reason: reasonOf(form) }),
  });
}

/** Take back what was measured in a round; resolves to null when the reader changed their mind. */
export function takeBack(state, row) {
  const reason = h("input", { name: "reason", maxlength: 500, autocomplete: "off", required: true, pattern: ".*\\S.*" });
  const measured = withUnit(number(row.measurement), state.units?.measurement);
  return ask({
    title: `Take back the measurement of round ${row.round}?`,
    body: [
      h("p", {}, "Measured: ", h("b", {}, measured), ". It no longer counts: decisions and sums are from now on as if it had never been measured."),
      h("p", { class: "small" }, "What was decided and done since then stays as it is, and the record keeps both. The rounds since then are computed again, which may take a while."),
      row.epoch !== state.epoch && h("p", { class: "careful" }, "It was measured under earlier settings: a new epoch of the record begins, without it."),
      field("Reason", reason, "This goes into the record."),
    ],
    confirm: "Take it back",
    act: (form) => post(pathOf(state.id, "retract"), { decision: row.decision, reason: reasonOf(form) }),
  });
}

/** What stands in their place for those who may only look, or enter readings and take them back. */
const looking = (mode, tell) => [
  h("p", {}, "Mode: ", h("b", {}, modeOf(mode).word)),
  h("p", { class: "small" }, modeOf(mode).long),
  h("p", { class: "small" }, `Your token ${tell ? "lets you enter readings and take them back" : "only lets you look"}: to change the mode, override or begin a trial, you need a token with admin.`),
];

const PUT_AWAY = () => [h("p", {}, h("b", {}, "Archived")), h("p", { class: "small" }, "This controller is archived: you can look at it, but not change it. You can bring it back at the end of this page.")];

/** The controls; `done` is called after each change. */
export function controls(done) {
  const node = h("div", { class: "controls" });
  let now = null; // what the dialogs begin with; a new decision must not redraw the button that has the focus
  const run = async (question, text) => {
    if ((await question) === null) return;
    announce(text);
    await done();
    // The button that was pressed may be gone: the focus must not be lost to the top of the page.
    if (document.activeElement === document.body) node.querySelector("button")?.focus();
  };
  const draw = drawn(node, (mode, override, trial, admin, tell, archived) => archived ? PUT_AWAY() : !admin ? looking(mode, tell) : [
    h(
      "div",
      { class: "segments", role: "group", "aria-label": "Mode" },
      Object.keys(MODES).map((other) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(other === mode),
            title: modeOf(other).long,
            onclick: () => other !== mode && run(switchMode(now, other), `The mode is now ${other}.`),
          },
          modeOf(other).word,
        ),
      ),
    ),
    h("p", { class: "small" }, modeOf(mode).long),
    h(
      "p",
      { class: "buttons" },
      h("button", { type: "button", onclick: () => run(takeOver(now, () => now), "The machine is held.") }, override ? "Hold elsewhere …" : "Take over …"),
      override && h("button", { type: "button", class: "primary", onclick: () => run(release(now, () => now), "Control has been handed back.") }, "Release …"),
      trial
        ? h("button", { type: "button", onclick: () => run(endTrial(now), "The trial is over.") }, "End the trial …")
        : h("button", { type: "button", onclick: () => run(beginTrial(now), "The trial has begun.") }, "Begin a trial …"),
    ),
  ]);
  return {
    node,
    update(state, { admin, tell }) {
      now = state;
      draw(state.mode, state.override !== null, Boolean(state.trial), admin, tell, Boolean(state.archived));
    },
  };
}
