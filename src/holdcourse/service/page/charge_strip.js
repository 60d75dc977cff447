// Who was in charge of the machine, round by round: a strip below the chart of settings, at the same places.

import { FONT, LEFT, onResize, surface } from "./chart.js";
import { fill, h } from "./dom.js";
import { share } from "./figures.js";
import { colour, onColours } from "./theme.js";
import { columns } from "./time_axis.js";
import { CHARGE } from "./words.js";

/** Who it was: advice that was followed, and people who were only watched, are told apart. */
export function chargeOf(row) {
  if (row.in_charge === "policy" && row.mode === "advise") return "advice";
  return row.in_charge === "operator" && ["observe", "shadow"].includes(row.mode) ? "watched" : row.in_charge;
}

/** Neighbours under the same hand: [{ who, first, last }]. */
function stretches(rows, place) {
  const found = [];
  const cuts = new Set(place.cuts);
  rows.forEach((row, k) => {
    const who = chargeOf(row);
    const before = found.at(-1);
    if (before?.who === who && !cuts.has(k - 1)) before.last = k;
    else found.push({ who, first: k, last: k });
  });
  return found;
}

export function chargeStrip() {
  const canvas = h("canvas", { role: "img" });
  const plot = h("div", { class: "plot charge" }, canvas);
  const key = h("p", { class: "key" });
  const node = h("div", {}, h("h3", {}, "Who was in charge"), plot, key);
  let data = { rows: [], byClock: true };

  function draw() {
    if (!node.isConnected) return;
    const { rows, byClock } = data;
    const area = surface(canvas, { left: LEFT, top: 0, bottom: 0 });
    const place = columns(area, rows, byClock);
    const { g } = area;
    g.font = FONT;
    g.textBaseline = "middle";
    g.textAlign = "center";
    for (const { who, first, last } of stretches(rows, place)) {
      const [x0, x1] = [place.left(first), place.right(last)];
      g.fillStyle = colour(`--charge-${who}`);
      g.fillRect(x0, 0, Math.max(x1 - x0, 1), area.h);
      const text = CHARGE[who].word;
      if (g.measureText(text).width + 12 > x1 - x0) continue;
      g.fillStyle = colour("--on-charge");
      g.fillText(text, (x0 + x1) / 2, area.h / 2 + 1);
    }
  }

  function describe() {
    const { rows } = data;
    const counts = Object.keys(CHARGE).map((who) => [who, rows.filter((row) => chargeOf(row) === who).length]).filter(([, n]) => n > 0);
    const said = counts.map(([who, n]) => `${CHARGE[who].word} ${share(n / rows.length)}`);
    canvas.setAttribute("aria-label", rows.length ? `Who was in charge, round ${rows[0].round} to ${rows.at(-1).round}: ${said.join(", ")}.` : "Nobody has been in charge yet.");
    const one = ([who, n]) => h("span", { title: CHARGE[who].long }, h("span", { class: `swatch block charge-${who}` }), `${CHARGE[who].word} ${share(n / rows.length)}`);
    fill(key, counts.map(one));
  }

  const undo = [onResize(plot, draw), onColours(draw)];
  return {
    node,
    update(next) {
      data = next;
      describe();
      draw();
    },
    stop: () => undo.forEach((f) => f()),
  };
}
