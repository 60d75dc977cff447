// The axis below the charts: where each round stands, by the plant's clock or by its number, and what is written there.

import { colour } from "./theme.js";
import { clock, date, marks, zoneName } from "./zone.js";

const FEWEST = 30; // columns; a young controller's rounds are not drawn as wide slabs
const SHORTEST = 0.25; // times the usual time between rounds: what came sooner still has a column
const LONGEST = 4; // the same: a longer pause is cut to this, and marked
const APART = 74; // pixels between two marks
const MOST_CUTS = 40; // that are marked: rounds that come in bursts have hundreds

const momentOf = (row) => new Date(row.at).getTime();

/** What lies usually between two rounds, in milliseconds. */
function usual(times) {
  const between = times.slice(1).map((t, k) => t - times[k]).filter((d) => d > 0).sort((a, b) => a - b);
  return between[Math.floor(between.length / 2)] ?? 3_600_000;
}

/**
 * Where the rows stand: each has a column, and the newest is at the right once there are enough. By the clock, a column
 * is as wide as its round lasted, and long pauses are cut; else all are equally wide.
 */
export function columns(area, rows, byClock) {
  const times = byClock ? rows.map(momentOf) : [];
  const typical = usual(times);
  const edges = [0]; // in units of a usual round
  const cuts = [];
  rows.forEach((_, k) => {
    const lasted = byClock && k + 1 < rows.length ? (times[k + 1] - times[k]) / typical : 1;
    if (lasted > LONGEST) cuts.push(k);
    edges.push(edges[k] + Math.min(Math.max(lasted, SHORTEST), LONGEST));
  });
  const unit = (area.x1 - area.x0) / Math.max(edges.at(-1), FEWEST);
  const left = (k) => area.x0 + edges[k] * unit;
  const width = (k) => Math.min(edges[k + 1] - edges[k], 1) * unit; // a pause is nobody's round
  return {
    byClock,
    typical,
    times,
    cuts,
    left,
    width,
    right: (k) => left(k) + width(k),
    middle: (k) => left(k) + width(k) / 2,
    narrowest: rows.length ? unit : 0,
    end: left(rows.length),
    at(x) {
      let [low, high] = [0, rows.length - 1];
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if (left(middle) <= x) low = middle;
        else high = middle - 1;
      }
      return low;
    },
  };
}

/** The axis below: the plant's clock with dates, or the numbers of the rounds. */
export function timeAxis(area, rows, place) {
  const { g } = area;
  g.fillStyle = colour("--soft");
  g.textBaseline = "top";
  g.textAlign = "right";
  g.fillText(place.byClock ? shortZone() : "round", area.x0 - 8, area.y1 + 8);
  g.textAlign = "center";
  if (place.byClock) clockMarks(area, rows, place);
  else roundMarks(area, rows, place);
}

/** The last part of a zone's name has to do: Berlin, not Europe/Berlin. */
const shortZone = () => zoneName().split("/").at(-1).replaceAll("_", " ");

function roundMarks(area, rows, place) {
  const { g } = area;
  const apart = Math.max(1, Math.ceil(APART / (place.narrowest || 1)));
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find((m) => m >= apart) ?? apart;
  rows.forEach((row, k) => {
    if (row.round % step !== 0) return;
    const x = place.middle(k);
    g.fillRect(Math.round(x), area.y1, 1, 5);
    if (x - 14 > area.x0 - 8 && x + 14 < area.w) g.fillText(row.round.toLocaleString("en"), x, area.y1 + 8);
  });
}

/** Pieces of time between cuts, each with marks of its own: [first row, last row]. */
function pieces(rows, place) {
  const ends = [...place.cuts, rows.length - 1];
  return ends.map((end, i) => [i ? ends[i - 1] + 1 : 0, end]);
}

function clockMarks(area, rows, place) {
  if (rows.length === 0) return;
  const { g } = area;
  const most = Math.max(2, Math.floor((area.x1 - area.x0) / APART));
  const shown = place.times.at(-1) - place.times[0];
  const cut = place.cuts.reduce((sum, k) => sum + place.times[k + 1] - place.times[k] - LONGEST * place.typical, 0);
  let free = area.x0 - 8; // where the next text may begin
  let day = "";
  pieces(rows, place).forEach(([first, last]) => {
    if (place.cuts.length > MOST_CUTS && place.right(last) - place.left(first) < APART / 2) return;
    const from = place.times[first];
    const to = place.times[last] + (rows.length > 1 ? place.typical : 0); // how long a single round lasts, nobody knows
    const part = Math.max((to - from) / Math.max(shown - cut + place.typical, 1), 0);
    const xOf = (at) => {
      const k = Math.min(Math.max(rowAt(place.times, at), first), last);
      const lasted = k < last ? place.times[k + 1] - place.times[k] : place.typical;
      const wide = k < last ? place.left(k + 1) - place.left(k) : place.width(k);
      return place.left(k) + wide * Math.min(Math.max((at - place.times[k]) / (lasted || 1), 0), 1);
    };
    const found = marks(from, to, Math.max(1, Math.round(part * most)));
    const wide = place.left(last) - place.left(first) > APART || rows.length < 3;
    if (found.length === 0 && wide) found.push({ at: from, text: clock(from), day: date(from), alone: true });
    for (const mark of found) {
      const x = xOf(mark.at);
      g.fillRect(Math.round(x), area.y1, 1, 5);
      const below = mark.day === day ? "" : mark.day; // said where it changes
      const half = Math.max(g.measureText(mark.text).width, g.measureText(below).width) / 2;
      const middle = mark.alone ? Math.max(x, free + half) : x; // of the text; it need not stand below its mark where it is the only one
      if (middle - half < free || middle + half > area.w) continue;
      g.fillText(mark.text, middle, area.y1 + 8);
      if (below) g.fillText(below, middle, area.y1 + 24);
      day = mark.day;
      free = middle + half + 12;
    }
  });
  drawCuts(area, rows, place);
}

/** The newest row that began by then. */
function rowAt(times, at) {
  let [low, high] = [0, times.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (times[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** A pause that was cut: two short strokes across the axis. */
function drawCuts(area, rows, place) {
  const { g } = area;
  g.strokeStyle = colour("--soft");
  g.lineWidth = 1.4;
  for (const k of place.cuts.length > MOST_CUTS ? [] : place.cuts) {
    const x = (place.right(k) + place.left(k + 1)) / 2;
    for (const by of [-2.5, 2.5]) {
      g.beginPath();
      g.moveTo(x + by - 2, area.y1 + 5);
      g.lineTo(x + by + 2, area.y1 - 5);
      g.stroke();
    }
  }
}
