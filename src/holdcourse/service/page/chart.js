// What the charts over rounds have in common: a sharp canvas, values upwards, and lines of no more points than can be seen.

import { number } from "./figures.js";
import { colour } from "./theme.js";

export const FONT = "13px system-ui, 'DejaVu Sans', sans-serif";
export const LEFT = 70; // the same in all charts, so that a round stands at the same place in each
export const BOTTOM = 44; // room for two lines below: clock and date

/** A canvas in device pixels, drawn in CSS pixels. */
export function surface(canvas, { left, right = 14, top = 10, bottom = BOTTOM }) {
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.max(1, Math.round(box.height * ratio));
  const g = canvas.getContext("2d");
  g.scale(ratio, ratio);
  g.font = FONT;
  return { g, ratio, w: box.width, h: box.height, x0: left, x1: box.width - right, y0: top, y1: box.height - bottom };
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

/** Of the points that fall on one pixel column the first, the lowest, the highest and the last: more cannot be seen. */
export function bounded(points) {
  const kept = [];
  for (let i = 0; i < points.length; ) {
    const column = Math.round(points[i][0]);
    let end = i;
    while (end + 1 < points.length && Math.round(points[end + 1][0]) === column) end++;
    if (end - i < 4) kept.push(...points.slice(i, end + 1));
    else {
      let [low, high] = [i, i];
      for (let k = i; k <= end; k++) {
        if (points[k][1] < points[low][1]) low = k;
        if (points[k][1] > points[high][1]) high = k;
      }
      kept.push(...[i, low, high, end].sort((a, b) => a - b).map((k) => points[k]));
    }
    i = end + 1;
  }
  return kept;
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
