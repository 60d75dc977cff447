// The colours behind the chart: by how much each setting is dearer than another one in the context of each round, as the
// model has learned it. The cost itself would show how large the load was, and hide what the choice is about.

import { diverging, palette } from "./colour.js";
import { appliedSetting, nearestContexts } from "./rows.js";

const MOST = 0.95; // of the differences: a few dear corners must not take all the colours

/** What the settings may be compared with. */
export const AGAINST = { cheapest: "the best setting", ran: "what ran" };

/** For each row the learned cost of every setting, less that of the cheapest one, or of the one that ran. */
export function differences(field, rows, actions, against) {
  const nearest = nearestContexts(rows, field.contexts);
  const places = new Map(actions.map((value, i) => [JSON.stringify(value), i]));
  const known = new Map(); // many rows are alike
  return rows.map((row, k) => {
    const costs = field.mean[nearest[k]];
    const ran = against === "ran" ? (places.get(JSON.stringify(appliedSetting(row))) ?? -1) : -1;
    const key = `${nearest[k]}/${ran}`;
    if (!known.has(key)) {
      const least = ran >= 0 ? costs[ran] : Math.min(...costs.filter(Number.isFinite));
      known.set(key, costs.map((cost) => cost - least));
    }
    return known.get(key);
  });
}

/** The two ends of the colours: from no difference to where most of them lie, or the same to both sides. */
export function spread(columns, against) {
  const sizes = Float64Array.from([...new Set(columns)].flat().filter(Number.isFinite).map(Math.abs)).sort();
  const most = sizes.length ? sizes[Math.round(MOST * (sizes.length - 1))] || sizes.at(-1) : 0;
  return [against === "ran" ? -(most || 1) : 0, most || 1];
}

export const coloursOf = (against) => (against === "ran" ? diverging() : palette());

/** An image with a column for each pixel of the chart, and nothing where no round is. */
export function painted({ area, axis, place }, columns, against, [low, high]) {
  const width = Math.max(1, Math.round(place.end - area.x0));
  const height = Math.max(1, Math.round((area.y1 - area.y0) * area.ratio));
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = Uint32Array.from(coloursOf(against), ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
  const parts = Array.from({ length: height }, (_, y) => axis.share(1 - (y + 0.5) / height));
  const made = new Map();
  const coloured = (costs) => {
    if (!made.has(costs)) {
      const column = new Uint32Array(height);
      parts.forEach(([k, part], y) => {
        const a = costs[axis.order[k]];
        const v = part ? a + part * (costs[axis.order[k + 1]] - a) : a;
        column[y] = colours[Math.round(255 * Math.min(Math.max((v - low) / (high - low), 0), 1))];
      });
      made.set(costs, column);
    }
    return made.get(costs);
  };
  for (let x = 0; x < width; x++) {
    const at = area.x0 + x + 0.5;
    const k = place.at(at);
    if (at > place.right(k) + 0.5) continue; // a pause
    const column = coloured(columns[k]);
    for (let y = 0; y < height; y++) pixels[y * width + x] = column[y];
  }
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
