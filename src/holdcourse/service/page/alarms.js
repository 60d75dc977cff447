// Alarms: those that are open at the top of the view, all of them in a list. Whoever may, says that they have seen one; it
// stays until it is over, and a new one of the same kind wants to be seen again.

import { pathOf, post } from "./api.js";
import { ask, field } from "./ask.js";
import { agoOf, symbol, timeOf } from "./badges.js";
import { announce, drawn, h } from "./dom.js";
import { authorOf } from "./words.js";

const MOST_ALARMS = 20; // newest

const words = ({ kind, message }) => [h("b", {}, `${kind.replaceAll("_", " ")}:`), ` ${message} `];

const seen = ({ acknowledged }) =>
  acknowledged && h("span", { class: "small seen" }, `Seen by ${authorOf(acknowledged.by)}, `, timeOf(acknowledged.at), acknowledged.remark ? `: ${acknowledged.remark}` : "");

function acknowledge(id, alarm) {
  const remark = h("input", { name: "remark", maxlength: 500, autocomplete: "off", autofocus: true });
  return ask({
    title: "Have you seen this alarm?",
    body: [
      h("p", {}, words(alarm)),
      h("p", { class: "small" }, "It stays open until its cause is gone, but no longer asks for attention. If it is raised again, it is a new alarm."),
      field("Remark", remark, "What you found, or what you do about it. This goes into the record with your token's name."),
    ],
    confirm: "I have seen it",
    act: () => post(pathOf(id, "alarms", alarm.kind, "acknowledge"), { remark: remark.value.trim(), at: alarm.at }),
  });
}

export function alarmList() {
  const node = h("div", { class: "alarms" });
  const ended = ({ cleared_at }) => (cleared_at ? [", cleared ", timeOf(cleared_at)] : ", open");
  const item = (alarm) =>
    h(
      "li",
      { class: alarm.cleared_at ? "cleared" : "open" },
      symbol(alarm.cleared_at ? "ok" : "stale"),
      h("span", {}, words(alarm), h("span", { class: "small" }, timeOf(alarm.at), ended(alarm)), alarm.acknowledged && h("br"), seen(alarm)),
    );
  const draw = drawn(node, (alarms) => {
    if (alarms.length === 0) return h("p", { class: "small" }, "No alarms.");
    return h("ul", {}, [...alarms].reverse().slice(0, MOST_ALARMS).map(item));
  });
  return { node, update: (alarms, zone) => draw(alarms, zone) };
}

/** Open alarms, at the top of the view; `done` is called when one was acknowledged. */
export function alarmStrip(id, done) {
  const node = h("div", { class: "strip", role: "alert" });
  const press = async (alarm) => {
    if ((await acknowledge(id, alarm)) === null) return;
    announce("The alarm has been acknowledged.");
    await done();
  };
  const one = (alarm, may) =>
    h(
      "p",
      { class: `warning ${alarm.acknowledged ? "is-seen" : ""}` },
      symbol("stale"),
      h("span", {}, words(alarm), h("span", { class: "small" }, agoOf(alarm.at)), alarm.acknowledged && h("br"), seen(alarm)),
      may && !alarm.acknowledged && h("button", { type: "button", "aria-label": `Acknowledge the alarm ${alarm.kind}`, onclick: () => press(alarm) }, "Acknowledge …"),
    );
  const draw = drawn(node, (alarms, may) => alarms.map((alarm) => one(alarm, may)));
  return { node, update: (alarms, may) => draw(alarms, may) };
}
