// The decision whose measurement is awaited, and how sure the rule was of it. Its reading can be entered by hand.

import { agoOf } from "./badges.js";
import { announce, drawn, h, s } from "./dom.js";
import { enterReading } from "./enter_reading.js";
import { costUnit, lasting, limitOf, number, plural, setting, share, withUnit, worth, worthWord } from "./words.js";

const SHOWN = 3;
const MOST_BARS = 10;
const SHOWN_FROM = 0.005;

/** A bar for a share from 0 to 1. */
export const bar = (part, chosen) =>
  s(
    "svg",
    { class: "bar", "aria-hidden": "true", viewBox: "0 0 100 10", preserveAspectRatio: "none" },
    s("rect", { class: chosen ? "chosen" : "other", width: Math.max(100 * part, 0.6), height: 10 }),
  );

/** Probabilities as a table with a bar in each row. */
function odds(decision, state) {
  const p = decision.probabilities;
  const chosen = decision.proposed ?? decision.action;
  const likely = p.map((_, i) => i).filter((i) => p[i] >= SHOWN_FROM || i === chosen).sort((a, b) => p[b] - p[a]);
  const name = (i) => setting(state.actions[i], state.units?.action);
  if (likely.length === 1) return h("p", {}, "The rule does not draw at random here; it chose ", h("b", {}, name(likely[0])), ".");
  const shown = likely.slice(0, MOST_BARS).sort((a, b) => a - b);
  const largest = Math.max(...shown.map((i) => p[i]));
  const row = (i) =>
    h(
      "tr",
      { class: i === chosen ? "best" : "" },
      h("th", { scope: "row" }, name(i), i === chosen ? h("span", { class: "small" }, " chosen") : null),
      h("td", { class: "wide" }, bar(p[i] / largest, i === chosen)),
      h("td", {}, share(p[i])),
    );
  const rest = likely.slice(MOST_BARS).reduce((sum, i) => sum + p[i], 0);
  return h(
    "table",
    { class: "bars odds" },
    h("caption", {}, "How likely each setting was", rest > SHOWN_FROM ? `; other settings have ${share(rest)}` : ""),
    h("colgroup", {}, ["name", "wide", "number"].map((name) => h("col", { class: name }))),
    h("thead", { class: "unseen" }, h("tr", {}, h("th", { scope: "col" }, "setting"), h("th", { scope: "col" }, "bar"), h("th", { scope: "col" }, "probability"))),
    h("tbody", {}, shown.map(row)),
  );
}

function one(decision, state, done = false, enter = null) {
  const unit = state.units ?? {};
  const followed = decision.proposed === null || decision.action === decision.proposed;
  const machine = `${setting(decision.value, unit.action)}${decision.reason ? ` (${decision.reason})` : ""}`;
  const facts = [
    decision.proposed === null ? ["Where it was", setting(decision.value, unit.action)] : ["Proposed", setting(decision.proposed_value, unit.action)],
    !followed && ["For the machine", machine],
    decision.limited_by && ["Limited by", limitOf(decision.limited_by)],
    decision.forced && ["Forced", decision.forced],
    [`Expected ${worthWord(state)}`, withUnit(number(worth(decision.expected_cost, state)), costUnit(state))],
    ["Asked", agoOf(decision.at)],
    state.deadline_s && ["Deadline", `${lasting(state.deadline_s)} after it was asked`],
  ].filter(Boolean);
  return h(
    "div",
    { class: "pending" },
    h("h3", {}, `Round ${decision.round} ${done ? "is done; nothing is pending" : "awaits its measurement"}`),
    h("dl", { class: "facts" }, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    enter && h("p", { class: "buttons" }, h("button", { type: "button", onclick: () => enter(decision) }, "Enter the reading …")),
    decision.probabilities && odds(decision, state),
  );
}

/** `done` is called when a reading was entered. */
export function pendingPanel(done) {
  const node = h("div", { tabindex: "-1" });
  let now = null; // the whole state, for the dialog
  const enter = async (decision) => {
    if ((await enterReading(now, decision)) === null) return;
    announce(`The reading of round ${decision.round} has been entered.`);
    await done();
    if (document.activeElement === document.body) node.focus(); // the button is gone
  };
  let last = null; // stays in sight when it is done: else the page below would jump up and down with every round
  let state = null;
  const draw = drawn(node, (given, last) => {
    if (last) return one(last, given, true);
    const newest = given.pending.slice(-SHOWN).reverse();
    if (newest.length === 0) return h("p", { class: "small" }, "Nothing is pending.");
    const older = given.pending.length - newest.length;
    return [newest.map((decision) => one(decision, given, false, given.tell && enter)), older > 0 && h("p", { class: "small" }, `and ${plural(older, "older decision")}`)];
  });
  const redraw = () => state && draw(state, state.pending.length ? null : last);
  /** Often a decision is measured before anybody sees it pending: its explanation knows what it was like. */
  const setLast = (decision) => {
    if (!last || decision.round >= last.round) last = decision;
    redraw();
  };
  return {
    node,
    setLast,
    update(whole, { tell }) {
      now = whole;
      const { pending, actions, units, deadline_s, maximise } = whole;
      state = { pending, actions, units, deadline_s, maximise, tell };
      if (pending.length) setLast(pending.at(-1));
      else redraw();
    },
  };
}
