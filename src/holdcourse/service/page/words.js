// How things are said: states, modes, settings and contexts with their units, how long ago.

import { short, withUnit } from "./figures.js";
import { dayAndClock } from "./zone.js";

export { decimalsFor, faithful, interval, number, plural, share, short, signed, withUnit } from "./figures.js";
export { exactTime, localTime } from "./zone.js";

export const STATUS = {
  new: { word: "new", long: "Nobody has asked it for a decision yet." },
  ok: { word: "running", long: "The last decision has been measured or skipped." },
  waiting: { word: "waiting", long: "A decision has been made; its measurement has not come in yet." },
  stale: { word: "stale", long: "No measurement came in within the deadline." },
  silent: { word: "silent", long: "Nobody has asked within the deadline after the last round." },
  broken: { word: "broken", long: "Its record cannot be used. See the alarms." },
  held: { word: "held", long: "An operator holds it at one setting." },
  archived: { word: "archived", long: "It is archived: you can look at it, but not change it." },
};

/** The same of a fleet, whose members are asked and told together. */
const FLEET_STATUS = {
  new: { long: "Nobody has asked its members for a decision yet." },
  ok: { long: "Every decision of its members has been measured or skipped." },
  waiting: { long: "Members have decided; their measurements have not come in yet." },
  opening: { long: "Its record is being opened." },
  broken: { long: "Its record cannot be used. Restore it from a back-up." },
};

export const MODES = {
  observe: { word: "observe", long: "It learns from what the operator does, and proposes nothing." },
  shadow: { word: "shadow", long: "It decides, and shows what it would do. The machine does not follow." },
  advise: { word: "advise", long: "It advises. The operator follows or says what was done instead." },
  act: { word: "act", long: "The machine follows its decisions." },
};

const LIMITS = {
  allowed: "the request, which does not allow it",
  max_step: "the longest single move",
  min_dwell: "the minimum dwell time",
  max_moves: "the maximum number of moves",
  cool_down: "the guard, until its cool-down ends",
};

/** Who decided what the machine did in a round, in one word and in a sentence. */
export const CHARGE = {
  policy: { word: "policy", long: "The policy decided, and the machine did it." },
  advice: { word: "advice followed", long: "The policy advised, and the operator did it." },
  limit: { word: "limit", long: "A limit kept the machine from what the policy wanted." },
  guard: { word: "guard", long: "The guard kept the machine at its safe setting." },
  override: { word: "override", long: "Somebody held the machine at a setting." },
  watched: { word: "operator, watched", long: "The operators decided. It watched, in mode observe or shadow." },
  operator: { word: "operator", long: "The operators did something else, or it was their turn in a trial." },
  baseline: { word: "baseline's turn", long: "It was the baseline's turn in a trial." },
  fallback: { word: "fallback", long: "The measurement was late, and the machine was sent to its fallback." },
};

/** The limit that kept the machine from what was wanted. */
export const limitOf = (name) => LIMITS[name] ?? name;

/** Where gains are measured, costs are gains with a minus: shown as gains, and called so. */
export const worth = (cost, { maximise }) => (maximise && Number.isFinite(cost) ? -cost + 0 : cost);
/** The unit of sums and of moving, which may not be what is measured: energy, where that is wind. */
export const costUnit = (state) => state.units?.cost || state.units?.measurement;
export const worthWord = ({ maximise }) => (maximise ? "gain" : "cost");
export const serviceWord = ({ maximise }) => (maximise ? "gain" : "service");

export const statusOf = (name) => STATUS[name] ?? { word: name, long: "" };
export const fleetStatus = (name) => FLEET_STATUS[name] ?? { long: "" };
export const modeOf = (name) => MODES[name] ?? { word: name, long: "" };

/** Who did something: the name of the token, or its id where it has none. */
export const authorOf = (by) => (!by ? "an operator" : by.name || `token ${by.token}`);

/** A setting in words: a number, a label, several coordinates, or named ones. */
export function setting(value, unit = "") {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return withUnit(short(value), unit);
  if (Array.isArray(value)) return withUnit(value.map((v) => setting(v)).join(", "), unit);
  if (typeof value === "object") return Object.entries(value).map(([name, v]) => `${name} ${setting(v)}`).join(", ");
  return String(value);
}

/** The same, as short as an axis needs it: without the names of coordinates, which `axisNames` gives. */
export const mark = (value, unit) => (named(value) ? Object.values(value).map((v) => setting(v)).join(", ") : setting(value, unit));
export const axisNames = (value) => (named(value) ? Object.keys(value).join(", ") : "");
const named = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Hours since 1970 as a time of the plant; null where that is no time. */
function momentOf(hours) {
  const moment = new Date(hours * 3600000).getTime();
  return Number.isFinite(moment) ? dayAndClock(moment) : null;
}

/** A context in words, with the names and units of its numbers where the controller's state knows them. */
export function contextWords(context, state) {
  if (context === null || context === undefined) return "none";
  const moment = state?.times && typeof context === "number" ? momentOf(context) : null;
  if (moment) return moment;
  const numbers = [context].flat();
  const of = (list) => (list?.length === numbers.length ? list : []);
  const [names, units] = [of(state?.context_names), of(state?.units?.contexts)];
  return numbers.map((v, i) => [names[i], withUnit(short(v, 6), units[i])].filter(Boolean).join(" ")).join(", ");
}

/** How long ago, in one unit. */
export function ago(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return "never";
  const s = Math.max(0, Math.round(seconds));
  if (s < 2) return "just now";
  if (s < 90) return `${s} s ago`;
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  if (s < 129600) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86400)} days ago`;
}

/** A length of time, in one unit. */
export const lasting = (seconds) => ago(Math.max(seconds, 2)).replace(" ago", "");

let ahead = 0; // milliseconds by which this computer's clock is ahead of the service's
/** Take note of the service's clock: "3 s ago" must be right also where the two clocks differ. */
export function noteClock(date) {
  const off = Date.now() - new Date(date).getTime();
  ahead = Math.abs(off) > 3000 ? off : 0; // the header has whole seconds only
}

export const secondsSince = (iso) => (iso ? (Date.now() - ahead - new Date(iso).getTime()) / 1000 : null);
