// Numbers as people read them, and never so short that they contradict each other: two that differ look different, one
// that is not zero does not look like zero, and an interval that does not hold zero does not seem to.

const BEYOND = 1e-9; // relative: what differs by less is the same number, computed twice
const MOST_DECIMALS = 12;

/** How many decimals show the largest of some numbers with three digits; all of a column get the same. */
export function decimalsFor(values) {
  const largest = Math.max(...values.filter(Number.isFinite).map(Math.abs), 0);
  if (largest === 0) return 0;
  return Math.min(Math.max(2 - Math.floor(Math.log10(Number(largest.toPrecision(3)))), 0), 7); // 0.9999 is 1.00, not 1.000
}

/** As many decimals as it takes to tell some numbers apart, from each other and from zero; at least those of `decimalsFor`. */
export function faithful(...values) {
  const known = values.filter(Number.isFinite);
  const largest = Math.max(...known.map(Math.abs), 0);
  const same = (a, b) => Math.abs(a - b) <= BEYOND * largest;
  const honest = (decimals) => {
    const shown = known.map((v) => Number(v.toFixed(decimals)));
    return known.every((v, i) => (same(v, 0) || shown[i] !== 0) && known.every((w, k) => same(v, w) || shown[i] !== shown[k]));
  };
  let decimals = decimalsFor(known);
  while (decimals < MOST_DECIMALS && !honest(decimals)) decimals++;
  return decimals;
}

/** Very large and very small numbers: with as many digits as the decimals say, and no zeros at the end. */
function exponential(value, decimals) {
  const digits = Math.min(Math.max(Math.floor(Math.log10(Math.abs(value))) + decimals, 3), 14);
  const [head, power] = value.toExponential(digits).split("e");
  return `${head.replace(/\.?0+$/, "")}e${power}`.replaceAll("-", "−");
}

/** A number with a true minus sign and groups of three; "–" when it is not known. One that is not zero never looks like it. */
export function number(value, decimals = decimalsFor([value])) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-5)) return exponential(value, decimals);
  let shown = decimals;
  while (size > 0 && Number(size.toFixed(shown)) === 0) shown++;
  return value.toLocaleString("en", { minimumFractionDigits: shown, maximumFractionDigits: shown }).replace("-", "−").replace(/^−(?=[0.]*$)/, "");
}

/** The same, always with its sign. */
export function signed(value, decimals) {
  const text = number(value, decimals);
  return value > 0 && Number.isFinite(value) ? `+${text}` : text;
}

export const withUnit = (text, unit) => (unit && text !== "–" ? `${text}\u00a0${unit}` : text);

/** A gain and its interval, all with the same decimals, in which they do not contradict each other or zero. */
export function interval({ value, low, high }, unit, least = 0) {
  const decimals = Math.max(faithful(value, low, high), least);
  const of = (v) => signed(v, decimals);
  return { value: withUnit(of(value), unit), ends: `${of(low)} to ${withUnit(of(high), unit)}` };
}

/** A plain number as people write it: no trailing zeros, and all the digits that it was given with. */
export const short = (value, digits = 12) => (Number.isFinite(value) ? String(+value.toPrecision(digits)).replace("-", "−") : "–");

/** A share in percent; what is not quite nothing, or not quite all, does not look so. */
export function share(p) {
  if (p > 0 && p < 0.005) return "<\u00a01\u00a0%";
  if (p < 1 && p > 0.995) return ">\u00a099\u00a0%";
  return `${Math.round(100 * p)}\u00a0%`;
}

export const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
