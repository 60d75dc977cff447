// Questions about the rows of decisions.

/** What the machine really did in a row: what is known to have been applied, else what it was told to do. */
export const appliedSetting = (row) => row.applied ?? row.value;

/** Whether the policy proposed something else than what was done. */
export const unfollowed = (row) => row.proposed_value !== null && JSON.stringify(row.proposed_value) !== JSON.stringify(appliedSetting(row));

/** Stretches in which the same was proposed and not done: [{ value, first, last }]. */
export function proposals(rows) {
  const found = [];
  rows.forEach((row, k) => {
    if (!unfollowed(row)) return;
    const before = found.at(-1);
    if (before?.last === k - 1 && JSON.stringify(before.value) === JSON.stringify(row.proposed_value)) before.last = k;
    else found.push({ value: row.proposed_value, first: k, last: k });
  });
  return found;
}

/** A staircase through the rows: [x, value] at both edges of each column. */
export function steps(rows, of, place) {
  return rows.flatMap((row, k) => {
    const value = of(row);
    return value === null || value === undefined ? [] : [[place.left(k), value], [place.left(k) + place.width(k), value]];
  });
}

const listed = (context) => (context === null || context === undefined ? [] : [context].flat(3));

/** For each row, which of the field's contexts is the nearest; each coordinate counts relative to its spread. */
export function nearestContexts(rows, contexts) {
  const points = contexts.map(listed);
  const size = points[0]?.length ?? 0;
  const scale = Array.from({ length: size }, (_, d) => {
    const along = points.map((p) => p[d]);
    return Math.max(...along) - Math.min(...along) || 1;
  });
  return rows.map((row) => {
    const here = listed(row.context);
    if (here.length !== size) return 0;
    let best = 0;
    let least = Infinity;
    points.forEach((point, k) => {
      const far = point.reduce((sum, v, d) => sum + ((v - here[d]) / scale[d]) ** 2, 0);
      if (far < least) [best, least] = [k, far];
    });
    return best;
  });
}

/** Decision ids are unique within an epoch. */
export const keyOf = (row) => `${row.epoch}/${row.decision}`;

/** `rows` with `newer` put in by key, in order of time; what is in both is taken from `newer`. */
export function merged(rows, newer) {
  const all = new Map(rows.map((row) => [keyOf(row), row]));
  newer.forEach((row) => all.set(keyOf(row), row));
  return [...all.values()].sort((a, b) => a.epoch - b.epoch || a.round - b.round);
}
