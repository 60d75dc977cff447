// All controllers in one table, and all fleets in another.

import { get, may } from "./api.js";
import { agoOf, modeBadge, statusBadge, symbol } from "./badges.js";
import { connect } from "./connection.js";
import { createController } from "./create.js";
import { fill, h, say } from "./dom.js";
import { calmly } from "./feed.js";
import { fleetSection, fleetsInWords } from "./fleets.js";
import { journalPanel } from "./journal.js";
import { cell, listTable, nameCell } from "./list_table.js";
import { ABOUT_GAINS } from "./panels.js";
import { costUnit, interval, plural, setting } from "./words.js";
import { useZone } from "./zone.js";

const REFRESH = 700; // milliseconds
const FIRST = ["broken", "stale", "silent", "held"]; // what needs somebody; the others keep their places from round to round
const COLUMNS = ["Controller", "State", "Mode", "Setting", "Last decision", "Measured gain", "Estimate against staying", "Alarms"];

const address = (id) => `#/c/${encodeURIComponent(id)}`;

/** Whether a trial measures it; what it has measured stands on the controller's own page. */
const measuring = ({ status, trial }) => h("span", { class: "small" }, status === "broken" ? "–" : trial ? `a trial against ${trial.against} is running` : "no trial is running");

/** What the model believes, in grey: had it acted, where it only watches. */
function estimated({ estimate, mode }, unit) {
  const watching = ["observe", "shadow"].includes(mode);
  const found = (watching && estimate?.had_it_acted) || estimate?.against_staying;
  if (!found) return h("span", { class: "small" }, "–");
  if (found.withheld) return h("span", { class: "small", title: found.withheld }, "withheld");
  const what = watching && estimate.had_it_acted ? "had it acted, " : "";
  const { value, ends } = interval({ value: found.gain, low: found.low, high: found.high }, unit);
  const sure = found.low === found.high ? "nothing else ran" : `${what}95\u00a0%: ${ends}`;
  return h("span", { class: "estimated" }, value, h("span", { class: "small" }, sure));
}

/** How many are open; those that somebody has seen do not ask for attention. */
function alarms({ status, alarms: open, unseen_alarms: unseen }) {
  if (status === "broken") return h("span", { class: "bad with-symbol" }, symbol("broken"), "broken"); // no record says more
  if (!open) return "none";
  if (!unseen) return h("span", { class: "small" }, `${plural(open, "alarm")}, seen`);
  return h("span", { class: "bad with-symbol" }, symbol("stale"), plural(unseen, "alarm"));
}

function cells(one) {
  const labelled = (k, ...children) => cell(COLUMNS[k], ...children);
  return [
    nameCell(address(one.id), one),
    labelled(1, statusBadge(one.status), one.message && h("span", { class: "small" }, one.message)),
    labelled(2, one.mode ? modeBadge(one.mode) : "–"),
    labelled(3, h("b", {}, setting(one.value, one.units?.action))),
    labelled(4, one.last_at ? [agoOf(one.last_at), h("span", { class: "small" }, plural(one.round, "round"))] : one.status === "broken" ? "–" : "never"),
    labelled(5, measuring(one)),
    labelled(6, estimated(one, costUnit(one))),
    labelled(7, alarms(one)),
  ];
}

/** Without what is not shown, which must not redraw a row. */
const shownOf = ({ seconds_since, service, measurements_sum, movement, ...rest }) => rest;

const controllerTable = (caption) => listTable({ caption, columns: COLUMNS, cells, first: FIRST });

function summary(all) {
  const trouble = all.filter((c) => ["stale", "silent", "broken"].includes(c.status) ? c.unseen_alarms > 0 || c.alarms === 0 : c.unseen_alarms > 0).length;
  const held = all.filter((c) => c.status === "held").length;
  const parts = [plural(all.length, "controller"), trouble ? `${trouble} need${trouble === 1 ? "s" : ""} attention` : "all is well"];
  if (held) parts.push(`${held} held by an operator`);
  return `${parts.join(", ")}.`;
}

export function controllersView(main) {
  useZone(undefined); // the browser's: each controller may have another
  document.title = "Controllers · holdcourse";
  const title = h("h1", { tabindex: "-1" }, "Controllers");
  const lead = h("p", { class: "lead" });
  const used = controllerTable("All controllers; those that need attention come first");
  const away = controllerTable("Archived controllers");
  const fleets = fleetSection();
  const journal = journalPanel();
  const apart = h("details", { class: "archived", hidden: true }, h("summary", {}), away.node);
  const first = h("p", { hidden: true }, "Create the first one here, drop a policy file or a table of readings on this page, or send a POST to ", h("code", {}, "/controllers"), ".");
  const none = h("p", { hidden: true }, "Your token may not create one. If it is for one controller only, the page shows that controller once it is created.");
  const empty = h(
    "div",
    { class: "empty", hidden: true },
    h("p", {}, h("b", {}, "No controller yet.")),
    h("p", {}, "A controller learns what each setting costs, weighs that against the cost of a change, and says what to do."),
    first,
    none,
  );
  const about = h("p", { class: "small foot" }, ABOUT_GAINS);

  function draw(all, hosted) {
    const [put, there] = [all.filter((c) => c.status === "archived"), all.filter((c) => c.status !== "archived")];
    empty.hidden = all.length > 0 || hosted.length > 0;
    about.hidden = all.length === 0;
    lead.textContent = [there.length && summary(there), hosted.length && fleetsInWords(hosted)].filter(Boolean).join(" ");
    fleets.draw(hosted);
    used.draw(there.map(shownOf));
    away.draw(put.map(shownOf));
    apart.hidden = put.length === 0;
    say(apart.firstChild, `${plural(put.length, "archived controller")}`);
  }

  const load = async () => {
    const [{ controllers: all }, { fleets: hosted }] = await Promise.all([get("controllers"), get("fleets")]);
    draw(all, hosted);
    const rights = await may();
    adds.hidden = first.hidden = !rights.admin;
    none.hidden = rights.admin;
    journal.node.hidden = !(rights.admin && rights.all);
    await journal.load();
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
    used.node,
    empty,
    apart,
    fleets.node,
    journal.node,
    about,
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
