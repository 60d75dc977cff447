// A policy's file, read here only to show what it holds; the service checks it.

const HEADER = 30; // bytes of a member's header, before its name
const SIGNATURE = 0x04034b50;
const STATE = "state.json";

/** Name, settings and what is known of the policy, or null where the file is none that we can show. Members are stored as they are. */
export async function readPolicy(file) {
  const bytes = await file.arrayBuffer();
  const view = new DataView(bytes);
  try {
    for (let at = 0; view.getUint32(at, true) === SIGNATURE; ) {
      const [size, name, extra] = [view.getUint32(at + 18, true), view.getUint16(at + 26, true), view.getUint16(at + 28, true)];
      const from = at + HEADER + name + extra;
      const text = (begin, length) => new TextDecoder().decode(new Uint8Array(bytes, begin, length));
      if (text(at + HEADER, name) === STATE) {
        const state = JSON.parse(text(from, size));
        return state.holds === "policy" ? { name: state.name, unit: state.units.action, settings: settingsOf(state), known: knownOf(state) } : null;
      }
      at = from + size;
    }
  } catch {
    // Cut short, or something else: the service says what is wrong with it.
  }
  return null;
}

/** The settings of a policy, as people call them. */
function settingsOf(policy) {
  const { labels, axes, metric } = policy.recipe.problem;
  const actions = policy.recipe.problem.actions ?? metric.map((_, k) => [k]); // only numbered
  if (labels) return labels.map(String);
  const names = axes?.map(([name]) => name);
  const words = axes?.map(([, knob]) => (Array.isArray(knob) ? null : knob.values)); // of a knob, which may have names
  const part = (v, k) => (words[k] && words[k].some((name) => typeof name !== "number") ? words[k][v] : v);
  return actions.map((point) => (names ? point.map((v, k) => `${names[k]} ${part(v, k)}`).join(", ") : point.join(", ")));
}

/** What is known about a policy, in sentences. */
function knownOf(policy) {
  const { evidence } = policy;
  if (!evidence) return ["The file does not say where the policy comes from, and contains no backtest."];
  const judged = evidence.as_judged ? "exactly this policy" : "it before it learned from these data";
  return [
    evidence.learned && `It has learned from ${evidence.learned}.`,
    evidence.judged && `A backtest judged ${judged}: ${evidence.judged}.`,
    evidence.conclusion,
  ].filter(Boolean);
}
