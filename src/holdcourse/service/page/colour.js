// The colours of the cost field: straight lines through OKLab, so that equal steps of cost look like equal steps. Cheap
// stands out from the background and dear sinks into it; where there are two sides, cheaper is blue and dearer orange.

import { dark } from "./theme.js";

// lightness, chroma, hue
const ENDS = {
  light: { cheap: [0.46, 0.105, 243], dear: [0.965, 0.022, 95], none: [0.965, 0.012, 95], dearer: [0.66, 0.13, 55] },
  dark: { cheap: [0.76, 0.095, 220], dear: [0.235, 0.03, 250], none: [0.27, 0.012, 250], dearer: [0.7, 0.12, 60] },
};

const lab = ([l, c, hue]) => [l, c * Math.cos((hue * Math.PI) / 180), c * Math.sin((hue * Math.PI) / 180)];

/** OKLab to sRGB, after Björn Ottosson, "A perceptual color space for image processing" (2020). */
function rgb([l, a, b]) {
  const L = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const M = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const S = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * L - 3.3077115913 * M + 0.2309699292 * S,
    -1.2684380046 * L + 2.6097574011 * M - 0.3413193965 * S,
    -0.0041960863 * L - 0.7034186147 * M + 1.707614701 * S,
  ];
  return linear.map((v) => {
    const u = Math.min(Math.max(v, 0), 1);
    return Math.round(255 * (u <= 0.0031308 ? 12.92 * u : 1.055 * u ** (1 / 2.4) - 0.055));
  });
}

const between = (from, to, count) => Array.from({ length: count }, (_, i) => rgb(lab(from).map((v, k) => v + (i / (count - 1)) * (lab(to)[k] - v))));

const ends = () => ENDS[dark() ? "dark" : "light"];

/** 256 colours from cheap to dear. */
export const palette = () => between(ends().cheap, ends().dear, 256);

/** 256 colours from cheaper through the same to dearer. */
export const diverging = () => [...between(ends().cheap, ends().none, 128), ...between(ends().none, ends().dearer, 128)];
