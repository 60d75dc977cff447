// What the machine should do now, in large letters.

import { agoOf } from "./badges.js";
import { drawn, h } from "./dom.js";
import { appliedSetting } from "./rows.js";
import { authorOf, limitOf, setting } from "./words.js";

/** The words: { verb, value, note }; `since` where that was not decided with the newest round. */
export function instruct(state, rows) {
  const name = (value) => setting(value, state.units?.action);
  const now = state.instruction ?? { action: state.action, value: state.value, reason: null };
  const newest = rows.at(-1);
  const before = rows.length > 1 ? appliedSetting(rows.at(-2)) : null;
  const same = before === null || JSON.stringify(before) === JSON.stringify(now.value);
  const kept = (wanted) => (now.limited_by ? ` The target is ${name(wanted)}; the move there is limited by ${limitOf(now.limited_by)}.` : "");
  if (state.archived) return { verb: "Last at", value: name(now.value), note: "The controller is archived and decides nothing." };
  if (state.override) {
    const why = state.override.reason ? `: ${state.override.reason}` : "";
    const author = authorOf(state.override.by);
    const how = now.forced ? `Forced by ${author}, whatever the limits say` : `Held by ${author}`;
    return { verb: now.limited_by ? "For now" : "Hold", value: name(now.value), note: `${how}${why}.${kept(state.override.setting)}`, since: state.override.since };
  }
  if (now.reason === "fallback") {
    const note = `No measurement came in before the deadline.${kept(state.fallback)}`;
    return { verb: state.fallback === null ? "Stay at" : "Fall back to", value: name(now.value), note };
  }
  if (now.forced) return { verb: "Stay at", value: name(now.value), note: `Somebody forced the machine here, whatever the limits say: ${now.forced}.` };
  if (!newest) return { verb: "Stay at", value: name(now.value), note: "Nobody has asked for a decision yet." };
  if (state.mode === "act") {
    const note = same ? "No change since the previous round." : `In the previous round it was at ${name(before)}.`;
    return { verb: same ? "Stay at" : "Go to", value: name(now.value), note };
  }
  if (state.mode === "advise") {
    return { verb: same ? "Advice: stay at" : "Advice: go to", value: name(newest.proposed_value ?? now.value), note: "The operator decides." };
  }
  if (state.mode === "shadow") {
    const would = newest.proposed_value === null ? "" : ` It would choose ${name(newest.proposed_value)}.`;
    return { verb: "Operator's choice:", value: name(now.value), note: `Shadow mode: the machine does not follow.${would}` };
  }
  return { verb: "Operator's choice:", value: name(now.value), note: "Observe mode: the controller watches and learns." };
}

export function instructionPanel() {
  const node = h("div", { class: "instruction" });
  const draw = drawn(node, ({ verb, value, note, since }, at, status) => [
    h("p", { class: "now" }, h("span", { class: "small" }, "Now"), h("span", { class: "order" }, `${verb} `, h("b", {}, value))),
    h("p", { class: "small" }, note, since ? [" Set ", agoOf(since), "."] : at && [" Decided ", agoOf(at), "."]),
  ]);
  return {
    node,
    update({ state, rows }) {
      node.className = `instruction is-${state.status}`;
      draw(instruct(state, rows), rows.at(-1)?.at ?? null, state.status);
    },
  };
}
