// What the charts over rounds have in common: a sharp canvas, axes, and the way from a row to a place.

import { colour } from "./theme.js";
import { number } from "./words.js";

export const FONT = "13px system-ui, 'DejaVu Sans', sans-serif";
export const LEFT = 70; // the same in all charts, so that a round stands at the same place in each
const FEWEST = 30; // columns; a young controller's rounds are not drawn as wide slabs

/** A canvas in device pixels, drawn in CSS pixels. */
export function surface(canvas, { left, right = 14, top = 10, bottom = 28 }) {
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.max(1, Math.round(box.height * ratio));
  const g = canvas.getContext("2d");
  g.scale(ratio, ratio);
  g.font = FONT;
  return { g, ratio, w: box.width, h: box.height, x0: left, x1: box.width - right, y0: top, y1: box.height - bottom };
}

/** Where the rows stand: each has a column; the newest is at the right once there are enough. */
export function columns(area, rows) {
  const width = (area.x1 - area.x0) / Math.max(rows.length, FEWEST);
  return {
    width,
    left: (k) => area.x0 + k * width,
    middle: (k) => area.x0 + (k + 0.5) * width,
    at: (x) => Math.min(Math.max(Math.floor((x - area.x0) / width), 0), rows.length - 1),
  };
}

/** Round numbers between low and high, about so many. */
export function nice(low, high, about) {
  const raw = (high - low) / Math.max(about, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999);
  const ticks = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) ticks.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return { ticks, step };
}

export function roundAxis(area, rows, place) {
  const { g } = area;
  const apart = Math.max(1, Math.ceil(70 / place.width));
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find((m) => m >= apart) ?? apart;
  g.fillStyle = colour("--soft");
  g.textBaseline = "top";
  g.textAlign = "right";
  g.fillText("round", area.x0 - 8, area.y1 + 8);
  g.textAlign = "center";
  rows.forEach((row, k) => {
    if (row.round % step !== 0) return;
    const x = place.middle(k);
    g.fillRect(Math.round(x), area.y1, 1, 5);
    if (x - 14 > area.x0 - 8 && x + 14 < area.w) g.fillText(row.round.toLocaleString("en"), x, area.y1 + 8);
  });
}

/** A long name is cut short; the table has it whole. */
function fitting(g, text, room) {
  let short = text;
  while (short.length > 2 && g.measureText(short).width > room) short = `${short.slice(0, -2)}…`;
  return short;
}

/** Ticks at values; each is [value, text]. */
export function valueAxis(area, Y, ticks, grid) {
  const { g } = area;
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (const [value, text] of ticks) {
    const y = Math.round(Y(value));
    if (grid) {
      g.fillStyle = colour("--line");
      g.fillRect(area.x0, y, area.x1 - area.x0, 1);
    }
    g.fillStyle = colour("--soft");
    g.fillText(fitting(g, text, area.x0 - 10), area.x0 - 8, y);
  }
}

export function numberTicks(low, high, about) {
  const { ticks, step } = nice(low, high, about);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return ticks.map((v) => [v, number(v, decimals)]);
}

/** A line over a casing in the background's colour, so that it is seen on any field. */
export function line(g, points, { stroke, width = 2.4, dash = [], casing = 0 }) {
  if (points.length === 0) return;
  const trace = () => {
    g.beginPath();
    points.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
    g.stroke();
  };
  g.lineJoin = "round";
  if (casing) {
    g.setLineDash([]);
    g.strokeStyle = colour("--bg");
    g.lineWidth = width + 2 * casing;
    trace();
  }
  g.setLineDash(dash);
  g.strokeStyle = stroke;
  g.lineWidth = width;
  trace();
  g.setLineDash([]);
}

/** Draw now, and again whenever the box changes its size; returns what undoes it. */
export function onResize(node, draw) {
  const watch = new ResizeObserver(() => draw());
  watch.observe(node);
  return () => watch.disconnect();
}
