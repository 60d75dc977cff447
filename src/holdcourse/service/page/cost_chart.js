// What has been made or paid so far: service and movement, each added up. They share the rounds, not the scale: moving is
// often so cheap beside service that on one scale nobody would see when it was paid.

import { bounded, LEFT, line, numberTicks, onResize, surface, valueAxis } from "./chart.js";
import { fill, h } from "./dom.js";
import { colour, onColours } from "./theme.js";
import { columns, timeAxis } from "./time_axis.js";
import { costUnit, decimalsFor, number, serviceWord, withUnit, worth } from "./words.js";

const LINES = [
  { key: "cumulative_service", word: "service", shade: "--service" },
  { key: "cumulative_movement", word: "movement", shade: "--movement" },
];

function oneChart({ key, word, shade }) {
  const canvas = h("canvas", { role: "img" });
  const label = h("p", { class: "key" });
  const plot = h("div", { class: `plot costs ${word}` }, canvas);
  const node = h("div", {}, label, plot);
  let rows = [];
  let state = {};
  let byClock = true;
  const at = (row) => (word === "service" ? worth(row[key], state) : row[key]); // moving costs, whatever is measured

  function draw() {
    if (!node.isConnected) return;
    const values = rows.map(at).filter(Number.isFinite);
    const low = values.length ? Math.min(...values) : 0;
    const most = values.length ? Math.max(...values) : 1;
    const high = most > low ? most : low + 1;
    const area = surface(canvas, { left: LEFT });
    const place = columns(area, rows, byClock);
    const Y = (v) => area.y1 - ((v - low) / (high - low)) * (area.y1 - area.y0);
    valueAxis(area, Y, numberTicks(low, high, 4), true);
    timeAxis(area, rows, place);
    const points = rows.map((row, i) => [place.middle(i), at(row)]).filter(([, v]) => Number.isFinite(v));
    line(area.g, bounded(points.map(([x, v]) => [x, Y(v)])), { stroke: colour(shade), width: 2.6 });
  }

  const undo = [onResize(plot, draw), onColours(draw)];
  return {
    node,
    update(shown, now, clock) {
      rows = shown;
      byClock = clock;
      state = { ...now, maximise: now.maximise || typeof now.made === "number" };
      const sum = word === "service" ? worth(now.service, state) : now.movement;
      const name = word === "service" ? serviceWord(state) : word;
      const text = withUnit(number(sum, decimalsFor([sum])), costUnit(now));
      fill(label, h("span", {}, h("span", { class: `swatch ${word}` }), `${name} `, h("b", {}, text)));
      const rounds = `round ${rows[0]?.round ?? 0} to ${rows.at(-1)?.round ?? 0}`;
      canvas.setAttribute("aria-label", `${name === "gain" ? "Gain" : `Cost of ${name}`}, added up, ${rounds}; now ${text}. The numbers are in the table of decisions.`);
      draw();
    },
    stop: () => undo.forEach((f) => f()),
  };
}

export function costChart() {
  const charts = LINES.map(oneChart);
  return {
    node: h("div", {}, charts.map(({ node }) => node)),
    update: ({ rows, state, byClock }) => charts.forEach((chart) => chart.update(rows, state, byClock)),
    stop: () => charts.forEach((chart) => chart.stop()),
  };
}
