// The settings taken, drawn over what is known of the others: by how much each is dearer in each round's context.

import { bounded, LEFT, line, nice, onResize, surface, valueAxis } from "./chart.js";
import { AGAINST, coloursOf, differences, painted, spread } from "./differences.js";
import { h } from "./dom.js";
import { appliedSetting, proposals, steps, unfollowed } from "./rows.js";
import { colour, onColours } from "./theme.js";
import { columns, timeAxis } from "./time_axis.js";
import { axisNames, contextWords, faithful, localTime, mark, number, setting, withUnit } from "./words.js";

const DOTS_FROM = 7; // pixels per round
const DENSE = 2; // likewise, below

/** The vertical axis: numbers where the settings are numbers, else one lane each. */
function lanes(values, area) {
  const numeric = values.every((v) => typeof v === "number") && values.length > 1;
  if (!numeric) {
    const place = new Map(values.map((v, i) => [JSON.stringify(v), i]));
    const high = (area.y1 - area.y0) / Math.max(values.length, 1);
    const every = Math.max(1, Math.ceil(18 / high));
    return {
      Y: (value) => area.y1 - ((place.get(JSON.stringify(value)) ?? 0) + 0.5) * high,
      ticks: (name) => values.filter((_, i) => i % every === 0).map((v) => [v, name(v)]),
      share: (u) => [Math.min(Math.floor(u * values.length), values.length - 1), 0],
      order: values.map((_, i) => i),
    };
  }
  const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
  const sorted = order.map((i) => values[i]);
  const margin = 0.03 * (sorted.at(-1) - sorted[0]) || 1;
  const low = sorted[0] - margin;
  const high = sorted.at(-1) + margin;
  const Y = (value) => area.y1 - ((value - low) / (high - low)) * (area.y1 - area.y0);
  return {
    Y,
    order,
    ticks: (name) => {
      const few = sorted.length <= (area.y1 - area.y0) / 20;
      return (few ? sorted : nice(low + margin, high - margin, 6).ticks).map((v) => [v, name(v)]);
    },
    share: (u) => {
      const v = low + u * (high - low);
      let k = 0;
      while (k < sorted.length - 2 && sorted[k + 1] < v) k++;
      return [k, Math.min(Math.max((v - sorted[k]) / (sorted[k + 1] - sorted[k] || 1), 0), 1)];
    },
  };
}

/** The chart; `pick(k)` is called with the place of a row that was clicked or stepped to. */
export function fieldChart({ pick }) {
  const under = h("canvas", { "aria-hidden": "true" });
  const over = h("canvas", { class: "over", tabindex: "0", role: "slider", "aria-label": "Round; the arrow keys step through the decisions" });
  const legend = h("canvas", { class: "ramp", "aria-hidden": "true" });
  const against = h("select", { "aria-label": "Colours compare each setting with", onchange: () => draw() }, Object.entries(AGAINST).map(([value, text]) => h("option", { value }, text)));
  const ends = [h("span"), h("span")];
  const learned = h("span");
  const note = h("p", { class: "small note", hidden: true });
  const readout = h("p", { class: "readout" });
  const names = h("span", { class: "names" });
  const key = h(
    "p",
    { class: "key" },
    h("span", { class: "ramp-key" }, learned, against, ": ", h("span", { class: "ramp-scale" }, ends[0], legend, ends[1])),
    h("span", {}, h("span", { class: "swatch taken" }), "taken"),
    names,
    h("span", { class: "proposed-key" }, h("span", { class: "swatch proposed" }), "proposed, not taken"),
  );
  const plot = h("div", { class: "plot field" }, under, over);
  const node = h("div", {}, key, plot, readout, note);
  let data = { rows: [], field: null, state: null };
  let selected = -1;
  let hovered = -1;
  let geometry = null;
  let behind = null; // the differences that are drawn, row by row

  const name = (value) => setting(value, data.state.units?.action);
  const words = (k) => {
    const row = data.rows[k];
    if (!row) return "";
    const cost = row.retracted ? "measurement taken back" : row.measurement === null ? (row.told_at ? "skipped" : "not measured yet") : `measured ${withUnit(number(row.measurement), data.state.units?.measurement)}`;
    return `Round ${row.round}: ${name(appliedSetting(row))}, ${cost}, context ${contextWords(row.context, data.state)}, ${localTime(row.at)}${cheapest(k)}`;
  };

  /** What the colours say of a round, in words. */
  function cheapest(k) {
    const costs = behind?.[k];
    if (!costs) return "";
    const { actions, maximise, units } = data.state;
    const best = costs.reduce((least, cost, i) => (cost < costs[least] ? i : least), 0);
    const ran = actions.findIndex((value) => JSON.stringify(value) === JSON.stringify(appliedSetting(data.rows[k])));
    if (ran < 0) return "";
    const off = costs[ran] - costs[best];
    if (!(off > 1e-9 * Math.max(...costs.map(Math.abs)))) return "; the best setting, according to the present model";
    return `; according to the present model, ${name(actions[best])} would ${maximise ? "bring" : "save"} ${withUnit(number(off), units?.measurement)}${maximise ? " more" : ""}`;
  }

  function draw() {
    const { rows, field, state } = data;
    if (!state || !node.isConnected) return;
    const area = surface(under, { left: LEFT });
    if (area.x1 - area.x0 < 10) return;
    const { g } = area;
    const place = columns(area, rows, data.byClock);
    const axis = lanes(state.actions, area);
    geometry = { area, place };
    const known = field !== null && rows.length > 0;
    key.querySelector(".ramp-key").hidden = !known;
    names.hidden = !axisNames(state.actions[0]);
    names.textContent = `upwards: ${axisNames(state.actions[0])}`;
    note.hidden = field !== null;
    behind = known ? differences(field, rows, state.actions, against.value) : null;
    if (known) {
      const range = spread(behind, against.value);
      g.imageSmoothingEnabled = false;
      g.drawImage(painted({ area, axis, place }, behind, against.value, range), area.x0, area.y0, Math.round(place.end - area.x0), area.y1 - area.y0);
      drawLegend(range);
    }
    g.strokeStyle = colour("--line");
    g.strokeRect(area.x0 - 0.5, area.y0 - 0.5, area.x1 - area.x0 + 1, area.y1 - area.y0 + 1);
    valueAxis(area, axis.Y, axis.ticks((value) => mark(value, state.units?.action)), false);
    timeAxis(area, rows, place);
    key.querySelector(".proposed-key").hidden = !rows.some(unfollowed);
    for (const { value, first, last } of proposals(rows)) {
      const y = axis.Y(value);
      line(g, [[place.left(first), y], [Math.max(place.right(last), place.left(first) + 1), y]], { stroke: colour("--proposed"), width: 2.4, casing: 1 });
    }
    const path = steps(rows, appliedSetting, place).map(([x, value]) => [x, axis.Y(value)]);
    const dense = place.narrowest < DENSE; // thick lines would hide each other, and the field
    line(g, bounded(path), { stroke: colour("--path"), width: dense ? 1.5 : 2.6, casing: dense ? 0.8 : 1.6 });
    if (place.narrowest >= DOTS_FROM) rows.forEach((row, k) => dot(g, place.middle(k), axis.Y(appliedSetting(row)), row));
    drawOver();
  }

  /** Filled when measured, hollow while its measurement is awaited. */
  function dot(g, x, y, row) {
    g.beginPath();
    g.arc(x, y, 3.6, 0, 2 * Math.PI);
    g.fillStyle = row.told_at ? colour("--path") : colour("--bg");
    g.strokeStyle = row.told_at ? colour("--bg") : colour("--path");
    g.lineWidth = 1.6;
    g.fill();
    g.stroke();
  }

  function drawLegend([low, high]) {
    const { g, w, h: tall } = surface(legend, { left: 0, right: 0, top: 0, bottom: 0 });
    coloursOf(against.value).forEach(([r, green, b], i) => {
      g.fillStyle = `rgb(${r},${green},${b})`;
      g.fillRect((i / 256) * w, 0, w / 256 + 1, tall);
    });
    const { maximise, units } = data.state;
    const [less, more] = maximise ? ["brings more", "brings less"] : ["cheaper", "costs more"];
    const decimals = faithful(low, high);
    learned.textContent = maximise ? "learned gain, less than that of " : "learned cost, beyond that of ";
    ends[0].textContent = low < 0 ? `${less} by ${number(-low, decimals)} ` : "0 ";
    ends[1].textContent = ` ${low < 0 ? `${more} by ` : "≥\u00a0"}${withUnit(number(high, decimals), units?.measurement)}`;
  }

  function drawOver() {
    if (!geometry) return;
    const { place } = geometry;
    const { g } = surface(over, { left: 0 });
    const cursor = (k, width, dash) => {
      if (k < 0 || k >= data.rows.length) return;
      const x = place.middle(k);
      line(g, [[x, geometry.area.y0], [x, geometry.area.y1]], { stroke: colour("--ink"), width, dash, casing: 1.5 });
    };
    cursor(selected, 2, []);
    cursor(hovered, 1, [4, 3]);
    readout.textContent = words(hovered >= 0 ? hovered : selected >= 0 ? selected : data.rows.length - 1);
    const now = selected >= 0 ? selected : data.rows.length - 1;
    over.setAttribute("aria-valuemin", data.rows[0]?.round ?? 0);
    over.setAttribute("aria-valuemax", data.rows.at(-1)?.round ?? 0);
    over.setAttribute("aria-valuenow", data.rows[now]?.round ?? 0);
    over.setAttribute("aria-valuetext", words(now) || "no decision yet");
  }

  const underPointer = (event) => (geometry && data.rows.length ? geometry.place.at(event.clientX - over.getBoundingClientRect().left) : -1);
  over.addEventListener("pointermove", (event) => ((hovered = underPointer(event)), drawOver()));
  over.addEventListener("pointerleave", () => ((hovered = -1), drawOver()));
  over.addEventListener("click", (event) => underPointer(event) >= 0 && pick(underPointer(event)));
  over.addEventListener("keydown", (event) => {
    const last = data.rows.length - 1;
    const now = selected >= 0 ? selected : last;
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Enter: 0 }[event.key];
    const to = { Home: 0, End: last }[event.key] ?? (by === undefined ? undefined : now + by);
    if (to === undefined || last < 0) return;
    event.preventDefault();
    pick(Math.min(Math.max(to, 0), last));
  });
  const undo = [onResize(plot, draw), onColours(draw)];
  return {
    node,
    update(next) {
      data = next;
      note.textContent = next.fieldNote ?? "";
      draw();
    },
    select(k) {
      selected = k;
      drawOver();
    },
    stop: () => undo.forEach((f) => f()),
  };
}
