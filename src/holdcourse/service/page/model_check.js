// The check of the model: what it is worth on readings that it has not seen, in words, in a picture and in three numbers.

import { get, pathOf } from "./api.js";
import { numberTicks } from "./chart.js";
import { fill, h, s } from "./dom.js";
import { plural, share, withUnit } from "./words.js";

const SIDE = 320;
const LEFT = 62;
const BELOW = 44;

/** Predicted to the right, measured upwards, each with its band; on the line the model was right. */
function picture(points, unit) {
  const known = points.filter((p) => Number.isFinite(p.predicted) && Number.isFinite(p.measured));
  const usual = known.filter((p) => !p.wrong);
  const all = (usual.length ? usual : known).flatMap((p) => [p.predicted, p.measured]);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const room = 0.04 * (high - low) || 1;
  const place = (v) => Math.min(Math.max((v - low + room) / (high - low + 2 * room), 0), 1);
  const x = (v) => LEFT + place(v) * (SIDE - LEFT - 8);
  const y = (v) => SIDE - BELOW - place(v) * (SIDE - BELOW - 8);
  const ticks = numberTicks(low, high, 4);
  return s(
    "svg",
    { class: "check-picture", viewBox: `0 0 ${SIDE} ${SIDE}`, role: "img", "aria-label": `Predicted against measured${unit ? `, in ${unit}` : ""}, of ${plural(known.length, "reading")}; the text beside it says the same.` },
    ticks.map(([v, text]) => [s("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, text), s("text", { x: x(v), y: SIDE - BELOW + 16, "text-anchor": "middle" }, text)]),
    s("path", { class: "right", d: `M${x(low)} ${y(low)}L${x(high)} ${y(high)}` }),
    usual.map((p) => s("path", { class: "band", d: `M${x(p.predicted)} ${y(p.low)}V${y(p.high)}` })),
    known.map((p) => s("circle", { class: p.wrong ? "wrong" : "reading", cx: x(p.predicted), cy: y(p.measured), r: p.wrong ? 4 : 2.2 })),
    s("text", { x: (SIDE + LEFT) / 2, y: SIDE - 6, "text-anchor": "middle" }, withUnit("predicted", unit && `(${unit})`)),
    s("text", { x: 12, y: 12 }, "measured"),
  );
}

const held = (coverage) =>
  h(
    "table",
    { class: "held" },
    h("caption", {}, "Share of readings within the model's bands"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "band"), h("th", { scope: "col" }, "contains"))),
    h("tbody", {}, Object.entries(coverage).map(([wanted, found]) => h("tr", {}, h("th", { scope: "row" }, share(Number(wanted))), h("td", {}, found === null ? "–" : share(found))))),
  );

export function modelCheckPanel(id) {
  const answer = h("div", { role: "status" });
  let unit = "";
  const run = async () => {
    button.disabled = true;
    fill(answer, h("p", { class: "small" }, "Checking: the model is fitted several times, each time without some of the readings. Asks and tells continue."));
    try {
      const found = await get(pathOf(id, "check"));
      fill(
        answer,
        h("ul", { class: "check-words" }, found.words.map((sentence) => h("li", {}, sentence))),
        found.left_out > 0 && h("p", { class: "small" }, `The newest ${plural(found.readings, "reading")}; ${plural(found.left_out, "older reading was", "older readings were")} left out.`),
        found.enough && h("div", { class: "check" }, picture(found.points, unit), held(found.coverage)),
      );
    } catch (refused) {
      fill(answer, h("p", { class: "problem" }, refused.message));
    }
    button.disabled = false;
    button.focus();
  };
  const button = h("button", { type: "button", onclick: run }, "Check the model");
  const node = h(
    "div",
    {},
    h("p", { class: "small" }, "How good is the model? Each part of the readings is predicted by a model that has not seen it."),
    h("p", { class: "buttons" }, button),
    answer,
  );
  return { node, update: (state) => (unit = state.units?.measurement ?? "") };
}
