// The fleet: every controller in one table; on a narrow screen each row is a card.

import { get, may } from "./api.js";
import { agoOf, modeBadge, statusBadge, symbol } from "./badges.js";
import { connect } from "./connection.js";
import { createController } from "./create.js";
import { drawn, fill, h } from "./dom.js";
import { calmly } from "./feed.js";
import { ABOUT_GAINS, NOT_MEASURED, between } from "./panels.js";
import { costUnit, decimalsFor, plural, setting, signed, withUnit } from "./words.js";

const REFRESH = 700; // milliseconds
const FIRST = ["broken", "stale", "silent", "held"]; // what needs somebody; the others keep their places from round to round
const COLUMNS = ["Controller", "State", "Mode", "Setting", "Last decision", "Measured gain", "Estimate against staying", "Alarms"];

const place = (status) => (FIRST.includes(status) ? FIRST.indexOf(status) : FIRST.length);

const address = (id) => `#/c/${encodeURIComponent(id)}`;

/** Whether a trial measures it; what it has measured stands on the controller's own page. */
const measuring = ({ trial }) => h("span", { class: "small" }, trial ? `a trial against ${trial.against} is on` : NOT_MEASURED);

/** What the model believes, in grey: had it acted, where it only watches. */
function estimated({ estimate, mode }, unit) {
  const watching = ["observe", "shadow"].includes(mode);
  const found = (watching && estimate?.had_it_acted) || estimate?.against_staying;
  if (!found) return h("span", { class: "small" }, "–");
  if (found.withheld) return h("span", { class: "small", title: found.withheld }, "withheld");
  const what = watching && estimate.had_it_acted ? "had it acted, " : "";
  const value = withUnit(signed(found.gain, decimalsFor([found.gain])), unit);
  return h("span", { class: "estimated" }, value, h("span", { class: "small" }, `${what}95\u00a0%: ${between(found.low, found.high, unit)}`));
}

function cells(one) {
  const cell = (k, ...children) => h("td", { role: "cell", "data-label": COLUMNS[k] }, h("span", {}, children));
  return [
    h(
      "th",
      { scope: "row", role: "rowheader" },
      h("a", { href: address(one.id) }, one.name),
      one.name !== one.id && h("span", { class: "small" }, one.id),
    ),
    cell(1, statusBadge(one.status), one.message && h("span", { class: "small" }, one.message)),
    cell(2, one.mode ? modeBadge(one.mode) : "–"),
    cell(3, h("b", {}, setting(one.value, one.units?.action))),
    cell(4, one.last_at ? [agoOf(one.last_at), h("span", { class: "small" }, plural(one.round, "round"))] : "never"),
    cell(5, measuring(one)),
    cell(6, estimated(one, costUnit(one))),
    cell(7, one.alarms ? h("span", { class: "bad with-symbol" }, symbol("stale"), plural(one.alarms, "alarm")) : "none"),
  ];
}

function summary(all) {
  const trouble = all.filter((c) => ["stale", "silent", "broken"].includes(c.status) || c.alarms > 0).length;
  const held = all.filter((c) => c.status === "held").length;
  const parts = [plural(all.length, "controller"), trouble ? `${trouble} need${trouble === 1 ? "s" : ""} a look` : "all is well"];
  if (held) parts.push(`${held} held by an operator`);
  return `${parts.join(", ")}.`;
}

export function fleetView(main) {
  document.title = "Fleet · holdcourse";
  const title = h("h1", { tabindex: "-1" }, "Fleet");
  const lead = h("p", { class: "lead" });
  const body = h("tbody", { role: "rowgroup" });
  const made = new Map();
  const table = h(
    "table",
    { class: "fleet", role: "table", hidden: true }, // until there is something to show
    h("caption", { class: "unseen" }, "All controllers; those that need somebody come first"),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, COLUMNS.map((text) => h("th", { scope: "col", role: "columnheader" }, text)))),
    body,
  );
  const empty = h(
    "div",
    { class: "empty", hidden: true },
    h("p", {}, h("b", {}, "No controller yet.")),
    h("p", {}, "A controller learns what each setting costs, weighs it against the cost of changing, and says what to do."),
    h("p", {}, "Make the first one here, drop a policy's file or a table of readings on this page, or send a POST to ", h("code", {}, "/controllers"), "."),
  );

  function draw(all) {
    empty.hidden = all.length > 0;
    table.hidden = all.length === 0;
    lead.textContent = all.length ? summary(all) : "";
    const sorted = [...all].sort((a, b) => place(a.status) - place(b.status) || a.id.localeCompare(b.id));
    const nodes = sorted.map((one) => {
      const entry = made.get(one.id) ?? { node: h("tr", { role: "row" }) };
      entry.draw ??= drawn(entry.node, cells);
      entry.node.className = `is-${one.status}`;
      const { seconds_since, service, measurements_sum, movement, ...rest } = one; // what is not shown must not redraw the row
      entry.draw(rest);
      made.set(one.id, entry);
      return entry.node;
    });
    const focused = document.activeElement;
    for (const old of [...body.children]) if (!nodes.includes(old)) old.remove();
    nodes.forEach((tr, i) => body.children[i] !== tr && body.insertBefore(tr, body.children[i] ?? null));
    if (focused !== document.activeElement && focused?.isConnected) focused.focus(); // moving an element takes its focus
  }

  const load = async () => {
    draw((await get("controllers")).controllers);
    adds.hidden = !(await may()).admin;
  };
  const refreshing = calmly(load, REFRESH);
  const create = async (file = null) => {
    const made = await createController(file);
    if (made) location.hash = address(made.id);
  };
  const over = (event) => {
    if ([...(event.dataTransfer?.types ?? [])].includes("Files")) event.preventDefault(); // else the browser would open it
  };
  const drop = (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    if (!document.querySelector("dialog[open]")) create(file);
  };
  const adds = h("button", { type: "button", class: "primary", hidden: true, onclick: () => create() }, "New controller …");
  document.addEventListener("dragover", over);
  document.addEventListener("drop", drop);
  fill(
    main,
    h(
      "div",
      { class: "row top" },
      h("div", {}, title, lead),
      adds,
    ),
    table,
    empty,
    h("p", { class: "small foot" }, ABOUT_GAINS),
  );
  const link = connect("events", load, () => refreshing.call());
  return {
    title,
    stop() {
      link.stop();
      refreshing.stop();
      document.removeEventListener("dragover", over);
      document.removeEventListener("drop", drop);
    },
  };
}
