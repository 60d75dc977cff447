// Why a decision was taken: in words, and as a bar for each setting that was in question.

import { get, pathOf } from "./api.js";
import { timeOf } from "./badges.js";
import { announce, fill, h, s } from "./dom.js";
import { appliedSetting, keyOf } from "./rows.js";
import { contextWords, decimalsFor, faithful, number, plural, serviceWord, setting, share, short, withUnit, worth, worthWord } from "./words.js";

const MOST_BARS = 9;
const WAIT = 120; // milliseconds: stepping with the keys must not ask for every round passed

/** One row per action, from lists with one entry per action. Without a bound an action was not allowed. */
function perAction({ expected, bounds, movement, probabilities }) {
  return expected.map((cost, action) => ({
    action,
    expected: bounds[action] === null ? NaN : (cost ?? NaN),
    bound: bounds[action] ?? NaN,
    movement: movement[action] ?? 0,
    probability: probabilities[action],
  }));
}

/** The settings worth showing: where it went, where it was, and the cheapest others. */
function inQuestion(rows, chosen, before) {
  const cost = (r) => (Number.isFinite(r.expected) ? r.expected + r.movement : Infinity);
  const best = [...rows].sort((a, b) => cost(a) - cost(b)).slice(0, MOST_BARS);
  for (const action of [chosen, before]) {
    const wanted = rows.find((r) => r.action === action);
    if (wanted && !best.includes(wanted)) best.splice(-1, 1, wanted);
  }
  return best.sort((a, b) => a.action - b.action);
}

/** Service from zero, movement after it: what is paid makes a gain shorter. Costs and gains may be negative. */
function bar(row, low, high) {
  const X = (v) => (100 * (Math.min(Math.max(v, low), high) - low)) / (high - low || 1);
  const { end } = row;
  const piece = (a, b, name) => s("rect", { class: name, x: Math.min(X(a), X(b)), width: Math.abs(X(b) - X(a)), y: 1, height: 8 });
  return s(
    "svg",
    { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    piece(0, row.expected, "service"),
    piece(row.expected, end, "movement"),
    low <= 0 && high >= 0 && s("rect", { class: "zero", x: X(0), width: 0.4, height: 10 }),
    Number.isFinite(row.bound) && s("rect", { class: "bound", x: X(row.bound) - 0.7, width: 1.4, height: 10 }),
  );
}

/** Where bars begin and end: at zero, unless all are so far from it that their differences could not be seen. */
function range(ends) {
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const apart = most - least;
  const far = Math.min(Math.abs(least), Math.abs(most));
  if (least * most <= 0 || apart === 0 || far < 2 * apart) return [Math.min(least, 0), Math.max(most, 0)];
  return least > 0 ? [least - apart / 4, most] : [least, most + apart / 4];
}

export function table(data, chosen, state) {
  const rows = perAction(data);
  const { before, values } = data;
  const name = (action) => setting(values[action], state.units?.action);
  const shown = inQuestion(rows, chosen, before).map((r) => ({
    ...r,
    expected: worth(r.expected, state),
    bound: worth(r.bound, state),
    end: worth(r.expected + r.movement, state),
  }));
  const ends = shown.flatMap((r) => [r.bound, r.expected, r.end]).filter(Number.isFinite);
  const [low, high] = range(ends);
  const costs = shown.map((r) => r.expected);
  const decimals = Math.min(faithful(...costs), decimalsFor(costs) + 3); // what was chosen must not look equal to the rest
  const mark = (r) => (r.action === chosen ? ["● ", "chosen: "] : r.action === before ? ["○ ", "it was at: "] : ["", ""]);
  const line = (r) =>
    h(
      "tr",
      { class: r.action === chosen ? "best" : "" },
      h("th", { scope: "row" }, h("span", { "aria-hidden": "true" }, mark(r)[0]), h("span", { class: "unseen" }, mark(r)[1]), name(r.action)),
      h("td", { class: "wide" }, Number.isFinite(r.expected) ? bar(r, low, high) : "not allowed"),
      h("td", {}, number(r.expected, decimals)),
      h("td", {}, r.movement ? short(r.movement, 3) : "–"),
      h("td", {}, share(r.probability ?? 0)),
    );
  const left = rows.length - shown.length;
  return h(
    "table",
    { class: "bars reasons" },
    h("caption", {}, `Expected ${worthWord(state)} of each setting`, left > 0 ? `; ${plural(left, "worse setting is", "worse settings are")} left out` : "", low > 0 || high < 0 ? `; bars begin at ${number(low > 0 ? low : high)}` : ""),
    h("colgroup", {}, ["name", "wide", "number", "number", "number"].map((name) => h("col", { class: name }))),
    h("thead", {}, h("tr", {}, ["", "", serviceWord(state), "moving", "odds"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, shown.map(line)),
  );
}

const key = (state) =>
  h(
    "p",
    { class: "key" },
    h("span", {}, h("span", { class: "swatch block service" }), serviceWord(state)),
    h("span", {}, h("span", { class: "swatch block movement" }), "moving there"),
    h("span", {}, h("span", { class: "swatch tick" }), "at best"),
    h("span", {}, "● its choice"),
    h("span", {}, "○ where it was"),
  );

const where = (row, state) => setting(appliedSetting(row), state.units?.action);

/** `follow` is called when the reader wants the newest again, `found` with every explanation that came. */
export function explanation(id, { follow, found: tell }) {
  const heading = h("h3", {}, "Why?");
  const content = h("div", {});
  const back = h("button", { type: "button", hidden: true, onclick: follow }, "Follow the newest");
  const node = h("aside", { tabindex: "-1", "aria-label": "Why it decided this" }, heading, content, back);
  let current = "";
  let timer = null;
  let speak = false;

  async function load(row, state) {
    const key = current;
    try {
      const found = await get(pathOf(id, "explain", encodeURIComponent(row.decision)));
      if (key !== current) return; // another one was chosen meanwhile
      draw(row, state, found);
      tell(row, found);
      if (speak) announce(found.words);
    } catch (refused) {
      if (key !== current) return;
      fill(content, h("p", { class: "problem" }, refused.message));
    }
    speak = false;
  }

  function draw(row, state, found) {
    const unit = state.units?.measurement;
    const other = JSON.stringify(found.data.value) !== JSON.stringify(appliedSetting(row));
    const gone = row.retracted && `Measured: ${withUnit(number(row.retracted.measurement), unit)}; taken back: ${row.retracted.reason}.`;
    const open = gone || (row.told_at ? "It was skipped." : "Its measurement has not come in yet.");
    const told = row.measurement === null ? open : `Measured: ${withUnit(number(row.measurement), unit)}.`;
    fill(
      content,
      h("p", { class: "small" }, timeOf(row.at), ` · ${row.mode} · context ${contextWords(row.context, state)}`),
      other && h("p", {}, `The machine was at ${where(row, state)}; the policy alone would have done this:`),
      h("p", {}, found.words),
      h("p", {}, told),
      table(found.data, found.data.action, state),
      key(state),
    );
  }

  return {
    node,
    update(row, state, pinned) {
      back.hidden = !pinned;
      if (!row) {
        heading.textContent = "Why?";
        fill(content, h("p", { class: "small" }, "The reasons for a decision appear here as soon as there is one."));
        return;
      }
      const key = `${keyOf(row)} ${row.told_at} ${row.retracted?.at}`;
      if (key === current) return;
      current = key;
      heading.textContent = `Why ${where(row, state)} in round ${row.round}?`;
      clearTimeout(timer);
      timer = setTimeout(() => load(row, state), WAIT);
    },
    speakNext() {
      speak = true;
    },
    show() {
      node.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      node.focus({ preventScroll: true });
    },
  };
}
