// Dialogs that change a running controller: limits, the price of moving, its name and time zone. Each asks why.

import { get, patch, pathOf } from "./api.js";
import { ask, field } from "./ask.js";
import { fresh, h } from "./dom.js";

const EPOCH = "A new epoch of the record begins, with everything that was measured so far. The change applies from the next decision on.";

const text = (name, value, more = {}) => h("input", { name, value: value ?? "", maxlength: 60, autocomplete: "off", ...more });
const why = () => field("Reason", h("input", { name: "reason", maxlength: 500, autocomplete: "off", required: true, pattern: ".*\\S.*" }), "This goes into the record with your token's name.");
const reasonOf = (form) => form.elements.reason.value.trim();

/** What was typed: nothing, a number, or text with a unit. */
function given(form, name) {
  const typed = form.elements[name].value.trim();
  if (typed === "") return null;
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(typed) ? Number(typed) : typed;
}

const PER_AXIS = "one value for each axis, separated by commas";
/** Whether settings have several axes: points, or combinations of knobs. */
const hasAxes = (state) => state.actions.some((value) => value !== null && typeof value === "object" && Object.keys(value).length > 1);

/** One number for each axis, with commas between; of a single axis, as it was typed. */
function several(form, name, state) {
  if (!hasAxes(state)) return given(form, name) ?? undefined;
  const parts = form.elements[name].value.split(",").map((part) => part.trim()).filter(Boolean);
  const read = parts.map((part) => (Number.isNaN(Number(part)) ? part : Number(part)));
  return read.length > 1 ? read : read[0];
}

const shown = (value) => (Array.isArray(value) ? value.join(", ") : value);

/** Only what was changed is sent. */
const changed = (before, after) => Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name] ?? null)));

function needsSomething(changes) {
  if (Object.keys(changes).length === 0) throw new Error("Nothing was changed.");
}

export async function editLimits(state) {
  const { limits } = await get(pathOf(state.id, "config"));
  const unit = state.units?.action;
  const step = typeof limits.max_step === "object" && limits.max_step !== null && !Array.isArray(limits.max_step) ? null : limits.max_step;
  return ask({
    title: "Change the limits?",
    wide: true,
    body: [
      h("p", { class: "small" }, "Empty means no limit. ", EPOCH),
      h(
        "div",
        { class: "grid" },
        field("Minimum dwell time", text("min_dwell", limits.min_dwell, { autofocus: true }), "Rounds, or a time such as 45 min."),
        field("Longest single move", text("max_step", shown(step)), `In ${unit || "units of a setting"}${hasAxes(state) ? `; or ${PER_AXIS}` : ""}.`),
        field("Maximum number of moves", text("max_moves", limits.max_moves), "In every window, whose length you give next."),
        field("Window", text("window", limits.window), "Rounds, or a time such as 1 h."),
        field("Most expensive single move", text("max_step_cost", limits.max_step_cost), "Its movement cost."),
        field("Length of a round", text("round_length", limits.round_length), "Seconds, or a time; needed if a limit is given as a time."),
      ),
      why(),
    ],
    confirm: "Change the limits",
    act: (form) => {
      const names = ["min_dwell", "max_moves", "window", "max_step_cost", "round_length"];
      const after = Object.fromEntries(names.map((name) => [name, given(form, name)]));
      after.min_dwell ??= 1;
      const changes = changed(limits, { ...after, max_step: several(form, "max_step", state) ?? null });
      needsSomething(changes);
      return patch(pathOf(state.id), { limits: changes, reason: reasonOf(form) });
    },
  });
}

export async function editPrice(state) {
  const config = await get(pathOf(state.id, "config"));
  const cost = state.units?.cost || state.units?.measurement || "units of what is measured";
  const per = state.units?.action || "unit of a setting";
  return ask({
    title: "Change the price of moving?",
    body: [
      h("p", { class: "small" }, EPOCH),
      field("Cost of moving by one unit", text("scale", shown(config.scale), { autofocus: true, required: true }), `In ${cost} for each ${per}, or with its units, such as 10 Wh/m${hasAxes(state) ? `; or ${PER_AXIS}` : ""}.`),
      field("Fixed cost of every move", text("fixed_cost", config.fixed_cost), `In ${cost}, however far it goes.`),
      why(),
    ],
    confirm: "Change the price",
    act: (form) => {
      const before = { scale: Array.isArray(config.scale) && config.scale.length === 1 ? config.scale[0] : config.scale, fixed_cost: config.fixed_cost };
      const changes = changed(before, { scale: several(form, "scale", state), fixed_cost: given(form, "fixed_cost") ?? 0 });
      needsSomething(changes);
      return patch(pathOf(state.id), { ...changes, reason: reasonOf(form) });
    },
  });
}

export function editNames(state) {
  const list = fresh("zones");
  const zones = Intl.supportedValuesOf?.("timeZone") ?? [];
  return ask({
    title: "Name and time zone",
    body: [
      field("Name", text("name", state.name === state.id ? "" : state.name, { maxlength: 200, autofocus: true }), "If empty, the id is shown."),
      field("Time zone of the plant", text("zone", state.zone, { list }), "Such as Europe/Berlin. The page and the exports show times in it; the record keeps UTC."),
      h("datalist", { id: list }, ["UTC", ...zones].map((value) => h("option", { value }))),
      field("Reason", h("input", { name: "reason", maxlength: 500, autocomplete: "off" }), "This goes into the record. You may leave it empty."),
    ],
    confirm: "Change",
    act: (form) => patch(pathOf(state.id), { name: form.elements.name.value.trim(), zone: form.elements.zone.value.trim(), reason: reasonOf(form) }),
  });
}
