// The smaller boxes of a controller's view: what it earned, its alarms, its limits, what it is.

import { agoOf, symbol, timeOf } from "./badges.js";
import { drawn, h } from "./dom.js";
import { decimalsFor, lasting, number, plural, setting, signed, withUnit, worth } from "./words.js";

const MOST_ALARMS = 20; // newest

const tile = (label, value, note, tone = "") =>
  h("div", { class: `tile ${tone}` }, h("dt", {}, label), h("dd", {}, value), note && h("dd", { class: "small" }, note));

/** A gain is good or bad only when it is more than nothing. */
export const tone = (gain) => (gain > 0 ? "good" : gain < 0 ? "bad" : "");

export const ABOUT_GAINS =
  "Gains against staying (at the start for ever) and against fixed (at the best single setting of the history) are estimated: " +
  "what was measured, and the difference that the learned model expected between the two settings in that round. " +
  "They are as good as the model, and not a measurement.";

export function tiles() {
  const node = h("dl", { class: "tiles" });
  const draw = drawn(node, (state) => {
    const unit = state.units?.measurement;
    const of = (v, write = number) => withUnit(write(v, decimalsFor([v])), unit);
    const fixed = state.against_fixed === null ? "needs a history to choose it on" : "the best single setting of the history";
    return [
      tile("Gain against staying", of(state.against_staying, signed), "estimated; the foot of the page says how", tone(state.against_staying)),
      tile("Gain against fixed", of(state.against_fixed, signed), fixed, tone(state.against_fixed)),
      tile(state.maximise ? "Made so far" : "Service cost", of(worth(state.service, state)), plural(state.rounds_told, "measured round")),
      tile("Movement cost", of(state.movement), "spent on changing the setting"),
    ];
  });
  return {
    node,
    update: ({ units, maximise, against_staying, against_fixed, service, movement, rounds_told }) =>
      draw({ units, maximise, against_staying, against_fixed, service, movement, rounds_told }),
  };
}

const words = ({ kind, message }) => [h("b", {}, `${kind.replaceAll("_", " ")}:`), ` ${message} `];

export function alarmList() {
  const node = h("div", { class: "alarms" });
  const item = (alarm) =>
    h(
      "li",
      { class: alarm.cleared_at ? "cleared" : "open" },
      symbol(alarm.cleared_at ? "ok" : "stale"),
      h("span", {}, words(alarm), h("span", { class: "small" }, timeOf(alarm.at), ended(alarm))),
    );
  const ended = ({ cleared_at }) => (cleared_at ? [", cleared ", timeOf(cleared_at)] : ", open");
  const draw = drawn(node, (alarms) => {
    if (alarms.length === 0) return h("p", { class: "small" }, "No alarms.");
    return h("ul", {}, [...alarms].reverse().slice(0, MOST_ALARMS).map(item));
  });
  return { node, update: (alarms) => draw(alarms) };
}

/** Open alarms, at the top of the view. */
export function alarmStrip() {
  const node = h("div", { class: "strip", role: "alert" });
  const one = (alarm) =>
    h("p", { class: "warning" }, symbol("stale"), h("span", {}, words(alarm), h("span", { class: "small" }, agoOf(alarm.at))));
  const draw = drawn(node, (alarms) => alarms.map(one));
  return { node, update: (alarms) => draw(alarms) };
}

const LIMITS = {
  min_dwell: (v) => (v > 1 ? ["Shortest stay", plural(v, "round")] : null),
  max_step: (v, all, unit) => ["Dearest single move", withUnit(setting(v), unit)],
  max_moves: (v, all) => ["Most moves", `${v} in any ${plural(all.window ?? 1, "round")}`],
};

function limitRows(state) {
  const limits = state.limits ?? {};
  const rows = Object.entries(LIMITS).flatMap(([name, say]) => {
    const said = limits[name] === null || limits[name] === undefined ? null : say(limits[name], limits, state.units?.measurement);
    return said ? [said] : [];
  });
  return rows.length ? rows : [["Limits", "none but the settings themselves"]];
}

export function facts() {
  const node = h("dl", { class: "facts" });
  const draw = drawn(node, (state) => {
    const unit = state.units?.action;
    const named = (v) => setting(v, unit);
    const { actions } = state;
    const ends = `${named(actions[0])} … ${named(actions.at(-1))} (${actions.length})`;
    const range = actions.length > 6 ? ends : withUnit(actions.map((v) => setting(v)).join(", "), unit);
    const fallback = typeof state.fallback === "number" ? `go to ${named(actions[state.fallback])}` : "stay where it is";
    const rows = [
      ...limitRows(state),
      ["Deadline", state.deadline_s ? `${lasting(state.deadline_s)}; without a measurement, ${fallback}` : "none"],
      ["Settings", range],
      ["Policy", state.policy],
      ["How it decides", state.explains_itself],
      ["Where it stands", `round ${state.round}, episode ${state.episode}, epoch ${state.epoch}`],
      ["Archived", state.archived_epochs.length ? `${plural(state.archived_epochs.length, "epoch")}: ${state.archived_epochs.join(", ")}` : ""],
    ];
    return rows.filter(([, v]) => v).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  });
  return {
    node,
    update: ({ units, actions, fallback, deadline_s, policy, explains_itself, round, episode, epoch, archived_epochs, limits }) =>
      draw({ units, actions, fallback, deadline_s, policy, explains_itself, round, episode, epoch, archived_epochs, limits }),
  };
}
