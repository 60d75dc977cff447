// The table of recent decisions, newest first. Each round's number is a button that explains it, and what was measured can
// be taken back.

import { drawn, h } from "./dom.js";
import { appliedSetting, keyOf, unfollowed } from "./rows.js";
import { chargeOf } from "./charge_strip.js";
import { authorOf, CHARGE, contextWords, decimalsFor, exactTime, limitOf, localTime, modeOf, number, setting, worth } from "./words.js";
import { shortTime, zoneName } from "./zone.js";

const SHOWN = 12;

const whoOf = (row) => `asked by ${authorOf(row.asked_by)}` + (row.told_at ? `, told by ${authorOf(row.told_by)}` : "");

const heading = (text, unit) => h("th", { scope: "col" }, text, unit && h("span", { class: "unit" }, ` (${unit})`));

/** Whether the machine was forced there, or kept from what was wanted. */
function order(row) {
  if (row.forced) return h("span", { class: "small", title: row.forced }, " forced");
  return row.limited_by && h("span", { class: "small", title: `Limited by ${limitOf(row.limited_by)}.` }, " limited");
}

/** What was measured; struck out, with the reason, where it was taken back, and marked where the model does not believe it. */
function reading(row, decimals) {
  const { retracted } = row;
  if (retracted) {
    const who = `Taken back by ${authorOf(retracted.by)}, ${localTime(retracted.at)}.`;
    return [h("s", {}, number(retracted.measurement)), h("span", { class: "small taken-back", title: who }, `taken back: ${retracted.reason}`)];
  }
  if (row.measurement === null) return h("i", {}, row.told_at ? "skipped" : "awaited");
  if (row.weight === 0) {
    const why = "The model cannot explain this reading and ignores it, and no sum includes it. Take it back if it was wrong.";
    return [number(row.measurement), h("span", { class: "small taken-back", title: why }, "set aside")];
  }
  return number(row.measurement, decimals);
}

export function decisionTable({ pick, earlier, takeBack }) {
  const head = h("tr");
  const body = h("tbody");
  const caption = h("caption", {});
  const less = h("button", { type: "button", onclick: () => show(SHOWN) }, "Fewer");
  const more = h("button", { type: "button", onclick: () => show(shown + 4 * SHOWN) }, "More");
  const node = h(
    "div",
    {},
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Recent decisions" },
      h("table", { class: "decisions" }, caption, h("thead", {}, head), body),
    ),
    h("p", { class: "buttons" }, more, less),
  );
  const made = new Map(); // by key: a row that did not change keeps its element, and its focus
  let data = null;
  let shown = SHOWN;
  let selected = null;

  const knownOf = (names, units) => (names ?? units ?? []).map((_, i) => [names?.[i], units?.[i] && `(${units[i]})`].filter(Boolean).join(" "));
  const drawHead = drawn(head, (units, names) => [
    heading("Round"), heading("Setting", units?.action), heading("Measured", units?.measurement), heading("Expected", units?.cost || units?.measurement),
    heading("Movement", units?.cost || units?.measurement), heading("Proposed", units?.action), heading(knownOf(names, units?.contexts).join(", ") || "Context"), heading("In charge"), heading("Time", zoneName()),
    h("td", {}),
  ]);

  function takeBackButton(row, explain) {
    const run = async () => {
      await takeBack(row);
      // The button may be gone: the focus must not be lost to the top of the page.
      const again = explain.isConnected ? explain : body.querySelector(`[aria-label="Explain round ${row.round}"]`);
      if (document.activeElement === document.body) again?.focus();
    };
    return h("button", { type: "button", class: "plain", "aria-label": `Take back the measurement of round ${row.round}`, onclick: run }, "take back …");
  }

  function cells(row, decimals, state) {
    const done = appliedSetting(row);
    const props = { type: "button", class: "plain", "aria-label": `Explain round ${row.round}`, onclick: () => pick(keyOf(row)) };
    const button = h("button", props, String(row.round));
    return [
      h("th", { scope: "row" }, button),
      h("td", {}, h("b", {}, setting(done)), order(row)),
      h("td", {}, reading(row, decimals)),
      h("td", {}, number(worth(row.expected_cost, state), decimals)),
      h("td", {}, row.movement ? number(row.movement, decimals) : "–"),
      h("td", {}, row.proposed_value === null ? "–" : unfollowed(row) ? setting(row.proposed_value) : "same"),
      h("td", {}, contextWords(row.context, { times: state.times })),
      h("td", { title: CHARGE[chargeOf(row)].long }, CHARGE[chargeOf(row)].word, h("span", { class: "small" }, ` ${modeOf(row.mode).word}`)),
      h("td", {}, h("time", { datetime: row.at, title: `${exactTime(row.at)}; ${whoOf(row)}` }, shortTime(row.at))),
      h("td", {}, row.measurement !== null && state.tell && takeBackButton(row, button)),
    ];
  }

  function draw() {
    const { rows, state } = data;
    const recent = rows.slice(-shown).reverse();
    const decimals = decimalsFor(recent.flatMap((row) => [row.expected_cost, row.weight === 0 ? null : row.measurement]).filter((v) => v !== null));
    drawHead(state.units, state.context_names, state.zone);
    caption.textContent = rows.length ? `Round ${recent.at(-1).round} to ${recent[0].round}; choose one to see why.` : "No decision yet.";
    const nodes = recent.map((row) => {
      const key = keyOf(row);
      const entry = made.get(key) ?? { node: h("tr"), draw: null };
      entry.draw ??= drawn(entry.node, cells);
      entry.draw(row, decimals, { maximise: state.maximise, times: state.times, zone: state.zone, tell: data.may?.tell });
      entry.node.classList.toggle("selected", key === selected);
      made.set(key, entry);
      return entry.node;
    });
    const kept = new Set(recent.map(keyOf));
    for (const key of made.keys()) if (!kept.has(key)) made.delete(key); // a page that stays open for months must not grow
    for (const old of [...body.children]) if (!nodes.includes(old)) old.remove();
    nodes.forEach((tr, i) => body.children[i] !== tr && body.insertBefore(tr, body.children[i] ?? null));
    more.hidden = !(rows.length > shown || data.more);
    less.hidden = shown <= SHOWN;
  }

  async function show(count) {
    shown = count;
    if (shown > data.rows.length && data.more) await earlier();
    draw();
  }

  return {
    node,
    update(next) {
      data = next;
      draw();
    },
    select(key) {
      selected = key;
      if (data) draw();
    },
  };
}
