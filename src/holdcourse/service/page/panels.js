// The smaller boxes of a controller's view: what it earned, what it promises, its limits, what it is.

import { drawn, h, s } from "./dom.js";
import { headline } from "./trial.js";
import { costUnit, decimalsFor, faithful, interval, lasting, number, plural, setting, withUnit, worth } from "./words.js";

export const tile = (label, value, note, tone = "") =>
  h("div", { class: `tile ${tone}` }, h("dt", {}, label), h("dd", {}, value), note && h("dd", { class: "small" }, note));

const NOT_MEASURED = "no trial has measured it yet";

export const ABOUT_GAINS =
  "Only a trial can measure the gain: the policy and the alternative take turns. Until then you see the model's estimate, in grey: " +
  "for each round, the measurement and the difference that the model expects between the two settings. It is only as good as the model. " +
  "Its interval includes the model's calibration error. It is withheld while the model fails its check or a reading is under suspicion.";

/** What a trial has measured: the only gain that may stand in front. */
function measuredTile({ trial, trial_found }) {
  const found = headline(trial_found);
  if (!found) return tile("Measured gain", "not known", trial ? "the trial has just begun" : NOT_MEASURED, "headline");
  return tile("Measured gain", found.words, found.note, `headline ${found.tone}`);
}

/** A gain as the model believes it: grey, with its interval, or the reason why it is withheld. */
function estimateTile(label, found, unit, none) {
  const name = `Estimate: ${label}`;
  if (!found) return none && tile(name, "–", none, "estimate");
  if (found.withheld) return tile(name, "withheld", found.withheld, "estimate");
  const { gain, low, high, rounds } = found;
  const { value, ends } = interval({ value: gain, low, high }, unit);
  const sure = low === high ? "nothing else ran: no estimate is needed" : `the model's estimate, 95\u00a0%: ${ends}; ${plural(rounds, "round")}`;
  return tile(name, value, sure, "estimate");
}

export function tiles() {
  const node = h("dl", { class: "tiles" });
  const draw = drawn(node, (state) => {
    const unit = costUnit(state);
    const made = typeof state.made === "number" ? state.made : state.maximise ? worth(state.service, state) : null;
    const of = (v) => withUnit(number(v), unit);
    const { against_staying, against_fixed, had_it_acted } = state.estimate;
    const watching = ["observe", "shadow"].includes(state.mode);
    return [
      measuredTile(state),
      tile(made === null ? "Service cost" : "Made so far", of(made ?? state.service), plural(state.rounds_told, "measured round")),
      tile("Movement cost", of(state.movement), "spent on changing the setting"),
      watching && estimateTile("had its proposals been followed", had_it_acted, unit, "so far it has proposed only what was done"),
      estimateTile("what was done, compared with staying", against_staying, unit, "no round can be compared yet"),
      estimateTile("what was done, compared with the best fixed setting", against_fixed, unit, watching ? null : "needs a history to choose from"),
    ];
  });
  return {
    node,
    update: ({ units, maximise, mode, made, trial, trial_found, estimate, service, movement, rounds_told }) =>
      draw({ units, maximise, mode, made, trial, trial_found, estimate, service, movement, rounds_told }),
  };
}

const percent = (part) => `${Number((100 * part).toPrecision(3))}\u00a0%`;

/** How much of the allowance is left, in words; it may be used up, or not touched. */
function allowance({ allowed, left }, of) {
  if (allowed <= 0 && left >= 0) return "There is no allowance yet: it comes with the first measurements.";
  if (left <= 0) return "The allowance is used up: it keeps to the baseline until it has saved more.";
  if (left >= allowed) return `All of the allowance of ${of(allowed)} is left.`;
  const decimals = faithful(left, allowed);
  return `${number(left, decimals)} of ${of(allowed, decimals)} of the allowance is left.`;
}

/** The promise, how it stands, and how far the model's word can be taken. */
export function promise() {
  const node = h("div", { class: "promise" });
  const draw = drawn(node, ({ promise: stands, calibration, actions, units, trial }) => {
    const of = (v, decimals = decimalsFor([v])) => withUnit(number(v, decimals), costUnit({ units }));
    const lines = [];
    if (stands) {
      const advance = stands.budget === null ? "" : `, apart from ${of(stands.budget)} in advance`;
      const { estimated_saved: saved, estimated_doubt: doubt } = stands;
      const digits = faithful(saved, doubt);
      const about = saved === null ? "" : withUnit(`${number(Math.abs(saved), digits)} ± ${number(doubt, digits)}`, costUnit({ units }));
      const so = saved === null ? "" : `The model estimates that ${saved < 0 ? `it has spent ${about} more` : `it has saved ${about} so far`}; `;
      const rest = allowance(stands, of);
      const share = stands.allowed > 0 ? Math.min(Math.max(stands.left / stands.allowed, 0), 1) : 0;
      const gauge = s(
        "svg",
        { class: "gauge", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": `${percent(Number(share.toFixed(2)))} of the allowance is left` },
        s("rect", { class: "whole", width: 100, height: 10 }),
        s("rect", { class: share > 0.1 ? "left" : "low", width: 100 * share, height: 10 }),
      );
      lines.push(h("p", {}, h("b", {}, "Promise:"), ` at most ${percent(stands.at_most)} above ${stands.against}${advance}. `, so && h("span", { class: "estimated" }, so), so ? rest[0].toLowerCase() + rest.slice(1) : rest), gauge);
    }
    if (calibration?.widening > 1.05) {
      lines.push(h("p", { class: "small" }, `The model's bands are widened by a factor of ${calibration.widening.toFixed(1)}, because readings fell outside them more often than they should.`));
    }
    if (calibration?.changes) {
      lines.push(h("p", { class: "small" }, `The plant has changed${calibration.changes > 1 ? ` ${calibration.changes} times` : ""}: earlier readings are no longer valid, and the model has forgotten them.`));
    }
    if (calibration?.set_aside) {
      const them = calibration.set_aside === 1 ? "it" : "them";
      const counted = trial ? ` The trial counts ${them} until somebody takes ${them} back.` : "";
      lines.push(h("p", { class: "small" }, `${plural(calibration.set_aside, "reading")} set aside as wrong. The model ignores ${them}, and no sum includes ${them}.${counted}`));
    }
    return lines;
  });
  return { node, update: ({ promise: stands, calibration, actions, units, trial }) => draw({ promise: stands, calibration, actions, units, trial }) };
}

const LIMITS = {
  min_dwell: "Minimum dwell time",
  max_step: "Longest single move",
  max_step_cost: "Most expensive single move",
  max_moves: "Maximum number of moves",
};

function limitRows(state) {
  const said = state.limits_in_words ?? {};
  const rows = Object.entries(LIMITS).flatMap(([name, title]) => (said[name] ? [[title, said[name]]] : []));
  return rows.length ? rows : [["Limits", "none except the settings themselves"]];
}

/** The numbers of a context by name and unit. */
function known({ context_names, units }) {
  const each = context_names ?? units?.contexts ?? [];
  return each.map((_, i) => [context_names?.[i], units?.contexts?.[i] && `(${units.contexts[i]})`].filter(Boolean).join(" ")).join(", ");
}

export function facts() {
  const node = h("dl", { class: "facts" });
  const draw = drawn(node, (state) => {
    const unit = state.units?.action;
    const named = (v) => setting(v, unit);
    const { actions } = state;
    const ends = `${named(actions[0])} … ${named(actions.at(-1))} (${actions.length})`;
    const range = actions.length > 6 ? ends : withUnit(actions.map((v) => setting(v)).join(", "), unit);
    const fallback = state.fallback !== null ? `go to ${named(state.fallback)}` : "stay where it is";
    const rows = [
      ...limitRows(state),
      ["Deadline", state.deadline_s ? `${lasting(state.deadline_s)}; without a measurement, ${fallback}` : "none"],
      ["Settings", range],
      ["What moving costs", state.price_in_words],
      ["Known before each decision", known(state)],
      ["Time zone", state.zone],
      ["Policy", state.policy],
      ["How it decides", state.explains_itself],
      ["What is known about it", state.file ? state.file.words.join(" ") : ""],
      ["Where it stands", `round ${state.round}, episode ${state.episode}, epoch ${state.epoch}`],
      ["Archived", state.archived_epochs.length ? `${plural(state.archived_epochs.length, "epoch")}: ${state.archived_epochs.join(", ")}` : ""],
    ];
    return rows.filter(([, v]) => v).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  });
  return {
    node,
    update: ({ units, actions, fallback, deadline_s, policy, explains_itself, file, round, episode, epoch, archived_epochs, limits_in_words, price_in_words, context_names, zone }) =>
      draw({ units, actions, fallback, deadline_s, policy, explains_itself, file, round, episode, epoch, archived_epochs, limits_in_words, price_in_words, context_names, zone }),
  };
}
