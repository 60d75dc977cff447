// The members of a fleet: how many are at each setting, and a table of them, a page at a time, however many there are.

import { drawn, fill, h, say } from "./dom.js";
import { bar } from "./pending.js";
import { mark, plural, setting, share, withUnit } from "./words.js";

const MOST_GROUPS = 24; // rows of the picture
const PAGE = 25; // members in sight

/**
 * Settings in groups that fit a picture: each alone where they are few, neighbours together where they are numbers, else
 * those with most members and the others together. `of` names the group of each setting.
 */
export function groups(settings, at, unit = "") {
  const count = (members) => members.reduce((sum, k) => sum + at[k], 0);
  const all = settings.map((_, k) => k);
  let parts;
  if (settings.length <= MOST_GROUPS) parts = all.map((k) => [k]);
  else if (settings.every(Number.isFinite)) {
    const sorted = [...all].sort((a, b) => settings[a] - settings[b]);
    const size = Math.ceil(settings.length / MOST_GROUPS);
    parts = Array.from({ length: Math.ceil(settings.length / size) }, (_, i) => sorted.slice(i * size, (i + 1) * size));
  } else {
    const most = all.filter((k) => at[k]).sort((a, b) => at[b] - at[a] || a - b).slice(0, MOST_GROUPS - 1);
    const kept = new Set(most);
    parts = [...most.sort((a, b) => a - b).map((k) => [k]), all.filter((k) => !kept.has(k))];
  }
  const numbers = settings.every(Number.isFinite);
  const named = (part) => {
    if (part.length === 1) return setting(settings[part[0]], unit);
    if (numbers) return withUnit(`${mark(settings[part[0]])} … ${mark(settings[part.at(-1)])}`, unit);
    return plural(part.length, "other setting");
  };
  const of = new Array(settings.length);
  const rows = parts.map((part) => ({ name: named(part), members: count(part) }));
  parts.forEach((part, i) => part.forEach((k) => (of[k] = rows[i].name)));
  return { rows, of };
}

/** How many members are at each setting, as bars. */
export function histogram() {
  const node = h("div");
  const draw = drawn(node, ({ settings, at, units, count }) => {
    const { rows } = groups(settings, at, units?.action);
    const largest = Math.max(...rows.map((row) => row.members), 1);
    const row = ({ name, members }) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name),
        h("td", { class: "wide" }, members > 0 && bar(members / largest, true)),
        h("td", {}, members.toLocaleString("en")),
        h("td", { class: "small" }, members ? share(members / count) : "–"),
      );
    return h(
      "table",
      { class: "bars members-at" },
      h("caption", {}, `Where ${plural(count, "member is", "members are")} now`),
      h("colgroup", {}, ["name", "wide", "number", "number"].map((name) => h("col", { class: name }))),
      h("thead", { class: "unseen" }, h("tr", {}, ["setting", "bar", "members", "share"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows.map(row)),
    );
  });
  return { node, update: ({ settings, at, units, count }) => draw({ settings, at, units, count }) };
}

const STATES = { "": "all", waiting: "whose measurement is awaited", behind: "with fewer rounds than others" };

const measurementOf = (pending, call) => (pending ? "awaited" : call === null ? "never asked" : "told or skipped");

/** The table of members, filtered and by the page: only those in sight are elements. */
export function memberTable() {
  const places = h("select", { onchange: () => show(0) });
  const states = h("select", { onchange: () => show(0) }, Object.entries(STATES).map(([value, text]) => h("option", { value }, text)));
  const from = h("input", { type: "number", min: 0, step: 1, inputmode: "numeric", placeholder: "0", oninput: () => show(0) });
  const body = h("tbody");
  const words = h("p", { class: "small", role: "status" });
  const before = h("button", { type: "button", onclick: () => show(first - PAGE) }, "Previous");
  const after = h("button", { type: "button", onclick: () => show(first + PAGE) }, "Next");
  const head = h("tr");
  const node = h(
    "div",
    {},
    h("p", { class: "filters" }, h("label", {}, "Show members: ", states), h("label", {}, "at ", places), h("label", {}, "from number ", from)),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of members" },
      h("table", { class: "members" }, h("caption", { class: "unseen" }, "Members of the fleet, by their number"), h("thead", {}, head), body),
    ),
    words,
    h("p", { class: "buttons" }, before, after),
  );
  let data = null; // { members, state }
  let first = 0; // of those that fit the filters

  const drawHead = drawn(head, (unit) =>
    ["Member", unit ? `Setting (${unit})` : "Setting", "Rounds", "Last measurement", "Last call"].map((text) => h("th", { scope: "col" }, text)),
  );
  const drawPlaces = drawn(places, (rows) => [h("option", { value: "" }, "any setting"), rows.map(({ name }) => h("option", { value: name }, name))]);

  function fitting() {
    const { members, of } = data;
    const most = Math.max(...data.state.rounds);
    const least = Math.max(Number(from.value) || 0, 0);
    const found = [];
    for (let k = Math.ceil(least); k < members.action.length; k++) {
      if (places.value && of[members.action[k]] !== places.value) continue;
      if (states.value === "waiting" && !members.pending[k]) continue;
      if (states.value === "behind" && members.round[k] >= most) continue;
      found.push(k);
    }
    return found;
  }

  const row = (k) => {
    const { members } = data;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, String(k)),
      h("td", {}, h("b", {}, setting(members.setting[k]))),
      h("td", {}, members.round[k].toLocaleString("en")),
      h("td", {}, measurementOf(members.pending[k], members.call[k])),
      h("td", {}, members.call[k] === null ? "–" : String(members.call[k])),
    );
  };

  function show(at) {
    if (!data) return;
    const found = fitting();
    first = Math.min(Math.max(at, 0), Math.max(Math.ceil(found.length / PAGE) - 1, 0) * PAGE);
    const shown = found.slice(first, first + PAGE);
    fill(body, shown.map(row));
    const total = plural(data.members.action.length, "member");
    say(words, shown.length ? `${(first + 1).toLocaleString("en")} to ${(first + shown.length).toLocaleString("en")} of ${found.length.toLocaleString("en")} that fit; the fleet has ${total}, counted from 0.` : `No member fits; the fleet has ${total}.`);
    const focused = document.activeElement;
    before.disabled = first === 0;
    after.disabled = first + PAGE >= found.length;
    if (focused === before && before.disabled) after.focus();
    if (focused === after && after.disabled) before.focus();
  }

  return {
    node,
    update(state, members) {
      const { rows, of } = groups(state.settings, state.at, state.units?.action);
      const chosen = places.value;
      data = { state, members, of };
      from.max = String(members.action.length - 1);
      drawHead(state.units?.action);
      drawPlaces(rows.map(({ name }) => ({ name })));
      places.value = [...places.options].some(({ value }) => value === chosen) ? chosen : "";
      show(first);
    },
  };
}
