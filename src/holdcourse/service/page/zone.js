// Times in the plant's own zone: clocks, dates, and where the marks of a time axis stand.

const MINUTE = 60_000;
const DAY = 1440; // minutes
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, DAY, 2 * DAY, 7 * DAY, 14 * DAY]; // minutes between two marks
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120]; // the same in months, beyond these

let inUse; // undefined: that of the browser

/** Show all times in this zone from now on; without one, in the browser's. A zone that this browser does not know is UTC. */
export function useZone(zone) {
  try {
    if (zone) new Intl.DateTimeFormat("en", { timeZone: zone });
    inUse = zone;
  } catch {
    inUse = "UTC";
  }
}

/** The zone in use, by name. */
export const zoneName = () => inUse ?? Intl.DateTimeFormat().resolvedOptions().timeZone;

const made = new Map();
/** A way of writing times; making one takes long, so each is made once. */
function format(options) {
  const key = `${inUse} ${JSON.stringify(options)}`;
  if (!made.has(key)) made.set(key, new Intl.DateTimeFormat("en-GB", { timeZone: inUse, hourCycle: "h23", ...options }));
  return made.get(key);
}

const WHOLE = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" };

/** By how many milliseconds the zone's clock is ahead of UTC at a moment. */
function ahead(ms) {
  const at = Object.fromEntries(format(WHOLE).formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(at.year, at.month - 1, at.day, at.hour, at.minute, at.second) - Math.floor(ms / 1000) * 1000;
}

/** The moment at which the zone's clock shows `local`, written as if it were UTC; an hour that is skipped counts as the next. */
function momentOf(local) {
  const guess = local - ahead(local);
  return local - ahead(guess);
}

/** Whether the zone's clock shows this time twice, because it is set back in between. */
const twice = (ms) => [-60, -30, 30, 60].some((minutes) => ahead(ms + minutes * MINUTE) === ahead(ms) - minutes * MINUTE);

const plainClock = (ms, seconds = false) => format({ hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined }).format(ms);

/** The time of day; in an hour that comes twice with its offset, such as 02:30+01:00. */
export function clock(ms, seconds = false) {
  const shown = plainClock(ms, seconds);
  if (!twice(ms)) return shown;
  const minutes = Math.abs(ahead(ms)) / MINUTE;
  const two = (v) => String(Math.trunc(v)).padStart(2, "0");
  return `${shown}${ahead(ms) < 0 ? "\u2212" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}
export const date = (ms) => format({ day: "numeric", month: "short" }).format(ms);
export const fullDate = (ms) => format({ day: "numeric", month: "short", year: "numeric" }).format(ms);

/** A time for a table: the date, the year where it is another one, and the clock. */
export function shortTime(iso) {
  const at = new Date(iso).getTime();
  if (Number.isNaN(at)) return "–";
  const thisYear = fullDate(at).slice(-4) === fullDate(Date.now()).slice(-4);
  return `${thisYear ? date(at) : fullDate(at)}, ${clock(at)}`;
}

/** A time with its date, its seconds and its zone. */
export function localTime(iso) {
  const at = new Date(iso).getTime();
  return Number.isNaN(at) ? "–" : `${fullDate(at)}, ${clock(at, true)} ${zoneName()}`;
}

/** The same for a title: with its zone, and in UTC. */
export function exactTime(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  const here = localTime(iso);
  return zoneName() === "UTC" ? here : `${here} · ${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A time of which nobody cares for the seconds, with its date. */
export const dayAndClock = (ms) => `${fullDate(ms)}, ${clock(ms)}`;

function byMonths(from, to, count) {
  const first = new Date(from + ahead(from));
  const start = Math.floor((first.getUTCFullYear() * 12 + first.getUTCMonth()) / count) * count;
  const marks = [];
  for (let month = start; ; month += count) {
    const at = momentOf(Date.UTC(Math.floor(month / 12), month % 12, 1));
    if (at > to) return marks;
    if (at >= from) marks.push(at);
  }
}

function byMinutes(from, to, minutes) {
  const step = minutes * MINUTE;
  const marks = [];
  for (let local = Math.ceil((from + ahead(from)) / step) * step; ; local += step) {
    const at = momentOf(local);
    if (at > to) return marks;
    if (at >= from && at !== marks.at(-1)) marks.push(at);
  }
}

/** Marks between two moments, at most so many: [{ at, text, day }]; `day` is the date, or the year where `text` is one. */
export function marks(from, to, most) {
  const minutes = STEPS.find((m) => (to - from) / (m * MINUTE) <= most);
  const months = MONTHS.find((m) => (to - from) / (m * 30 * DAY * MINUTE) <= most) ?? MONTHS.at(-1);
  const found = minutes ? byMinutes(from, to, minutes) : byMonths(from, to, months);
  const whole = !minutes || minutes >= DAY;
  return found.map((at) => ({ at, text: whole ? date(at) : plainClock(at), day: whole ? fullDate(at).slice(-4) : date(at) }));
}
