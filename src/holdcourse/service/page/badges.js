// States as a symbol and a word: never by colour alone.

import { h, s } from "./dom.js";
import { ago, exactTime, localTime, modeOf, secondsSince, statusOf } from "./words.js";

const SHAPES = {
  new: ["M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11z"],
  ok: ["M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11z", "M5.3 8.2l2 2l3.5-4"],
  waiting: ["M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11z", "M8 5v3.2l2.2 1.4"],
  stale: ["M8 2.2L14.4 13.4H1.6z", "M8 6.4v3", "M8 11.3v.2"],
  silent: ["M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11z", "M5.3 8h5.4"],
  broken: ["M5.3 1.8h5.4l3.5 3.5v5.4l-3.5 3.5H5.3l-3.5-3.5V5.3z", "M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4"],
  archived: ["M2 3h12v3.2H2z", "M3 6.2h10v6.8H3z", "M6.3 8.6h3.4"],
  held: ["M2.5 2.5h11v11h-11z", "M6.2 5.5v5M9.8 5.5v5"],
};

export function symbol(name) {
  const paths = (SHAPES[name] ?? SHAPES.new).map((d) => s("path", { d }));
  return s("svg", { class: "symbol", viewBox: "0 0 16 16", "aria-hidden": "true" }, paths);
}

export const statusBadge = (name, long = statusOf(name).long) =>
  h("span", { class: `badge is-${name}`, title: long }, symbol(name), statusOf(name).word);

export const modeBadge = (name) => h("span", { class: `mode is-${name}`, title: modeOf(name).long }, modeOf(name).word);

/** A moment in the plant's zone, with that and UTC in its title. */
export const timeOf = (iso) => (iso ? h("time", { datetime: iso, title: exactTime(iso) }, localTime(iso)) : h("span", {}, "–"));

/** A moment as "3 s ago"; `keepTime` counts it on. */
export const agoOf = (iso) =>
  iso ? h("time", { class: "ago", datetime: iso, title: exactTime(iso) }, ago(secondsSince(iso))) : h("span", {}, "never");

/** Count every "... ago" on, once a second. */
export const keepTime = () =>
  setInterval(() => {
    for (const node of document.querySelectorAll("time.ago")) {
      const text = ago(secondsSince(node.dateTime));
      if (node.textContent !== text) node.textContent = text;
    }
  }, 1000);
