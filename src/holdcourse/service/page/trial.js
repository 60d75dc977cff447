// A trial: what it has measured, as a verdict, the interval over time, and every block.

import { get, pathOf } from "./api.js";
import { drawn, h, s } from "./dom.js";
import { faithful, interval, number, plural, signed } from "./words.js";
import { clock, date, fullDate } from "./zone.js";

const wide = () => (innerWidth < 600 ? 430 : 900); // letters must not shrink with the picture
let WIDE = wide();
const HIGH = 190;
const LEFT = 70;
const TONES = { "it pays": "good", "it does not pay": "bad" };

const momentOf = (at) => new Date(at).getTime();
const unbroken = (sentence) => sentence.replaceAll(" %", "\u00a0%"); // a line does not begin with the sign

/** Five dates, or hours within a day, below a picture. */
function dates(began, x) {
  if (began.length === 0) return [];
  const short = fullDate(momentOf(began[0])) === fullDate(momentOf(began.at(-1)));
  const parts = WIDE < 600 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const places = [...new Set(parts.map((part) => Math.round(part * (began.length - 1))))];
  return places.map((k) => {
    const last = k === began.length - 1 && k > 0;
    const at = momentOf(began[k]);
    const text = short ? `${k === 0 ? `${date(at)}, ` : ""}${clock(at)}` : k === 0 ? fullDate(at) : date(at);
    return s("text", { x: last ? WIDE - 6 : x(k), y: HIGH - 6, "text-anchor": last ? "end" : "start" }, text);
  });
}

function picture(label, ...children) {
  return s("svg", { class: "trial-picture", viewBox: `0 0 ${WIDE} ${HIGH}`, width: WIDE, role: "img", "aria-label": label }, children);
}

function overTime(found) {
  const inPercent = Number.isFinite(found.percent.always_low); // as in the headline
  const looks = inPercent ? found.looks_in_percent : found.looks;
  const known = looks.value.map((_, k) => k).filter((k) => Number.isFinite(looks.always_low[k]) && Number.isFinite(looks.always_high[k]));
  if (known.length < 2) return null;
  const settled = known.slice(Math.floor(known.length / 4)); // the first intervals are wide
  const top = Math.max(0, ...settled.map((k) => looks.always_high[k]));
  const low = Math.min(0, ...settled.map((k) => looks.always_low[k]));
  const x = (k) => LEFT + ((WIDE - LEFT - 10) * (k - known[0])) / Math.max(known.at(-1) - known[0], 1);
  const y = (v) => 10 + ((HIGH - 42) * (top - Math.min(Math.max(v, low), top))) / (top - low || 1);
  const band = (lows, highs, kind) => {
    const there = known.filter((k) => Number.isFinite(lows[k]) && Number.isFinite(highs[k]));
    const points = [...there.map((k) => `${x(k)},${y(highs[k])}`), ...there.reverse().map((k) => `${x(k)},${y(lows[k])}`)];
    return s("polygon", { class: kind, points: points.join(" ") });
  };
  const marks = [0, top, low].filter((v, k) => k === 0 || Math.abs(y(v) - y(0)) > 16);
  const unit = inPercent ? "%" : found.unit;
  return [
    h("h3", {}, "The answer over time"),
    picture(
      "The measured gain and its intervals after every pair of blocks",
      band(looks.always_low, looks.always_high, "wide"),
      band(looks.low, looks.high, "narrow"),
      s("polyline", { class: "line", points: known.map((k) => `${x(k)},${y(looks.value[k])}`).join(" ") }),
      s("path", { class: "zero", d: `M${LEFT} ${y(0)}H${WIDE - 10}` }),
      marks.map((v) => s("text", { x: LEFT - 8, y: y(v) + 4, "text-anchor": "end" }, `${v === 0 ? "0" : signed(v, faithful(top, low))}${unit === "%" ? "\u00a0%" : ""}`)),
      dates(known.map((k) => found.began[k]), (place) => x(known[place])),
    ),
    h("p", { class: "small" }, "Wide: the 95\u00a0% interval that is right however often you look; the verdict uses it. Narrow: right for a single look that was planned beforehand."),
  ];
}

function blocks(found) {
  if (found.net.length === 0) return null;
  const all = found.net.flat();
  const [low, top] = [Math.min(...all), Math.max(...all)];
  const width = (WIDE - LEFT - 10) / found.net.length;
  const x = (k) => LEFT + width * (k + 0.5);
  const y = (v) => 12 + ((HIGH - 46) * (top - v)) / (top - low || 1);
  const dots = found.net.flatMap((pair, k) =>
    pair.map((value, j) => {
      const ours = (j === 0) === found.policy_first[k];
      return s("circle", { class: ours ? "ours" : "theirs", cx: x(k) + width * (j ? 0.2 : -0.2), cy: y(value), r: 3 });
    }),
  );
  return [
    h("h3", {}, "Block by block"),
    picture(
      "Net cost of every block of the policy and of the baseline",
      dots,
      s("text", { x: LEFT - 8, y: 16, "text-anchor": "end" }, number(top, faithful(top, low))),
      s("text", { x: LEFT - 8, y: HIGH - 30, "text-anchor": "end" }, number(low, faithful(top, low))),
      dates(found.began, x),
    ),
    h("p", { class: "small" }, `Net cost a round${found.unit ? ` in ${found.unit}` : ""}. Coloured: the policy's blocks, grey: the baseline's.`),
  ];
}

/** The measured gain in short, as the headline shows it: null while there is nothing to say. */
export function headline(found) {
  if (!found) return null;
  const { gain, percent } = found;
  if (!Number.isFinite(gain.always_low)) return { words: "too early to say", note: `${plural(found.pairs, "pair")} of blocks measured so far`, tone: "" };
  const inPercent = Number.isFinite(percent.always_low);
  const shown = inPercent ? percent : gain;
  const { value, ends } = interval({ value: shown.value, low: shown.always_low, high: shown.always_high }, inPercent ? "%" : found.unit);
  const by = found.over && found.until ? `a trial until ${fullDate(momentOf(found.until))}` : "a trial";
  return { words: value, note: `measured by ${by}, 95\u00a0%: ${ends}`, tone: TONES[found.verdict] ?? "" };
}

/** The newest trial of a controller; hidden where none was made. `heard` is given every new answer. */
export function trialPanel(id, heard) {
  const inner = h("div", {});
  const node = h("section", { "aria-labelledby": "trial", hidden: true }, h("h2", { id: "trial" }, "Trial: did it pay?"), inner);
  const draw = drawn(inner, (found, size) => [
    h("p", { class: `verdict ${TONES[found.verdict] ?? ""}` }, h("b", {}, unbroken(found.words[1]))),
    h("ul", { class: "small" }, [found.words[0], ...found.words.slice(2)].map((sentence) => h("li", {}, unbroken(sentence)))),
    overTime(found),
    blocks(found),
  ]);
  let looked = null; // the round up to which it was asked for

  return {
    node,
    async update(state) {
      const now = state.trial ? `${state.epoch}.${state.rounds_told}` : `${state.epoch}`; // one that is over changes no more
      if (now === looked) return;
      looked = now;
      const { trial } = await get(pathOf(id, "trial"));
      node.hidden = !trial;
      WIDE = wide();
      if (trial) draw(trial, WIDE);
      heard(trial);
    },
  };
}
