// A reading that somebody enters by hand, for a decision that waits for it.

import { pathOf, post } from "./api.js";
import { ask, field } from "./ask.js";
import { h } from "./dom.js";
import { setting } from "./words.js";

/** Where the machine is by what was commanded: a late decision may have sent it to the fallback since. */
const placeOf = (state, decision) => (state.pending.at(-1)?.decision === decision.decision ? state.value : decision.value);

/** Tell the measurement of a pending decision, or that there was none; resolves to null when nothing was entered. */
export function enterReading(state, decision) {
  const unit = state.units ?? {};
  const measured = h("input", { name: "measurement", inputmode: "decimal", autocomplete: "off", required: true, maxlength: 40, autofocus: true });
  const name = (value) => h("b", {}, setting(value, unit.action));
  const place = placeOf(state, decision);
  const sent = JSON.stringify(place) !== JSON.stringify(decision.value);
  const was = sent
    ? ["The decision was ", name(decision.value), ". Its measurement was late, so the machine was sent to ", name(place), "."]
    : ["The machine was to be at ", name(place), "."];
  const options = state.actions.map((value, i) => h("option", { value: String(i) }, setting(value, unit.action)));
  const ran = h("select", { name: "applied" }, h("option", { value: "" }, sent ? `${setting(place, unit.action)}, where it was sent` : "as answered"), options);
  const none = h("input", {
    type: "checkbox",
    name: "none",
    onchange: () => {
      measured.required = !none.checked;
      measured.disabled = none.checked;
    },
  });
  const read = () => {
    const text = measured.value.trim().replace("−", "-");
    if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text)) throw new Error(`“${measured.value}” is not a number; write it with a point, such as 12.5.`);
    return Number(text);
  };
  return ask({
    title: `Enter the reading of round ${decision.round}?`,
    body: [
      h("p", {}, was, " The policy learns from the reading, which is recorded with your token's name."),
      field(`Measured${unit.measurement ? ` (${unit.measurement})` : ""}`, measured, state.maximise ? "A gain: more is better." : "A cost: less is better."),
      field("Setting that ran", ran, "If another setting ran, say which."),
      h("p", {}, h("label", {}, none, " Nothing was measured in this round.")),
    ],
    confirm: "Enter",
    act: () => {
      const applied = ran.value === "" ? {} : { applied_index: Number(ran.value), epoch: state.epoch };
      if (none.checked) return post(pathOf(state.id, "skip"), { decision: decision.decision, ...applied });
      return post(pathOf(state.id, "tell"), { decision: decision.decision, measurement: read(), ...applied });
    },
  });
}
