// How things are said: states, modes, numbers with their units, times.

export const STATUS = {
  new: { word: "new", long: "It has not been asked anything yet." },
  ok: { word: "running", long: "The last decision has been measured." },
  waiting: { word: "waiting", long: "A decision has been made; its measurement has not come in yet." },
  stale: { word: "stale", long: "No measurement came in within the deadline." },
  silent: { word: "silent", long: "Nobody has asked within the deadline after the last round." },
  broken: { word: "broken", long: "Its record cannot be used. See the alarms." },
  held: { word: "held", long: "An operator holds it at one setting." },
};

export const MODES = {
  observe: { word: "observe", long: "It learns from what the operator does, and proposes nothing." },
  shadow: { word: "shadow", long: "It decides, and shows what it would do. The machine does not follow." },
  advise: { word: "advise", long: "It advises. The operator follows or says what was done instead." },
  act: { word: "act", long: "Its decisions are for the machine to follow." },
};

const LIMITS = {
  allowed: "the question, which did not allow it",
  max_step: "the longest single move",
  min_dwell: "the shortest stay",
  max_moves: "the most moves",
  cool_down: "the guard, until it has cooled down",
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
export const modeOf = (name) => MODES[name] ?? { word: name, long: "" };

/** How many decimals show the largest of some numbers with three digits; all of a column get the same. */
export function decimalsFor(values) {
  const largest = Math.max(...values.filter(Number.isFinite).map(Math.abs), 0);
  if (largest === 0) return 0;
  return Math.min(Math.max(2 - Math.floor(Math.log10(largest)), 0), 7);
}

/** Who did something: the name of the token, or its id where it has none. */
export const authorOf = (by) => (!by ? "an operator" : by.name || `token ${by.token}`);

/** A number with a true minus sign and groups of three; "–" when it is not known. */
export function number(value, decimals = decimalsFor([value])) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-5)) return value.toExponential(3).replace("-", "−");
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const text = value.toLocaleString("en", options).replace("-", "−");
  return /[1-9]/.test(text) ? text : text.replace("−", "");
}

/** The same, always with its sign. */
export function signed(value, decimals) {
  const text = number(value, decimals);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

export const withUnit = (text, unit) => (unit && text !== "–" ? `${text}\u00a0${unit}` : text);

/** A plain number as people write it: no trailing zeros. */
const short = (value, digits = 6) => (Number.isFinite(value) ? String(+value.toPrecision(digits)).replace("-", "−") : "–");

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

/** What was seen before deciding. */
/** Hours since 1970 as a time, UTC; null where that is no time. */
function momentOf(hours) {
  const moment = new Date(hours * 3600000);
  return Number.isFinite(moment.getTime()) ? `${moment.toISOString().slice(0, 16).replace("T", " ")} UTC` : null;
}

/** A context in words, with the names and units of its numbers where the controller's state knows them. */
export function contextWords(context, state) {
  if (context === null || context === undefined) return "none";
  const moment = state?.times && typeof context === "number" ? momentOf(context) : null;
  if (moment) return moment;
  const numbers = [context].flat();
  const of = (list) => (list?.length === numbers.length ? list : []);
  const [names, units] = [of(state?.context_names), of(state?.units?.contexts)];
  return numbers.map((v, i) => [names[i], withUnit(short(v, 4), units[i])].filter(Boolean).join(" ")).join(", ");
}

export const share = (p) => (p > 0 && p < 0.005 ? "< 1 %" : `${Math.round(100 * p)}\u00a0%`);

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

/** Local time; the date too when it is not today. */
export function localTime(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "–";
  const clock = at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  if (at.toDateString() === new Date().toDateString()) return clock;
  return `${at.toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" })}, ${clock}`;
}

export const utcTime = (iso) => {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? "" : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
};

let ahead = 0; // milliseconds by which this computer's clock is ahead of the service's
/** Take note of the service's clock: "3 s ago" must be right also where the two clocks differ. */
export function noteClock(date) {
  const off = Date.now() - new Date(date).getTime();
  ahead = Math.abs(off) > 3000 ? off : 0; // the header has whole seconds only
}

export const secondsSince = (iso) => (iso ? (Date.now() - ahead - new Date(iso).getTime()) / 1000 : null);
export const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
