// The view of one controller.

import { alarmList, alarmStrip } from "./alarms.js";
import { pathOf } from "./api.js";
import { auditPanel } from "./audit.js";
import { agoOf, statusBadge } from "./badges.js";
import { chargeStrip } from "./charge_strip.js";
import { connect } from "./connection.js";
import { controls, takeBack } from "./controls.js";
import { costChart } from "./cost_chart.js";
import { decisionTable } from "./decisions.js";
import { announce, drawn, fill, h, say } from "./dom.js";
import { explanation } from "./explain.js";
import { exportButtons } from "./export.js";
import { Feed } from "./feed.js";
import { fieldChart } from "./field_chart.js";
import { instruct, instructionPanel } from "./instruction.js";
import { modelCheckPanel } from "./model_check.js";
import { ABOUT_GAINS, facts, promise, tiles } from "./panels.js";
import { pendingPanel } from "./pending.js";
import { putAway } from "./put_away.js";
import { recordPanel } from "./record.js";
import { keyOf } from "./rows.js";
import { editLimits, editNames, editPrice } from "./settings_dialogs.js";
import { trialPanel } from "./trial.js";
import { statusOf } from "./words.js";
import { useZone } from "./zone.js";

const SPANS = [60, 120, 240, 1000, 10_000];
const AXES = { clock: "time", rounds: "rounds" };
const AXIS = "holdcourse-axis"; // where the reader's choice is kept

const section = (id, title, ...children) => h("section", { "aria-labelledby": id }, h("h2", { id }, title), children);

export function controllerView(main, id) {
  const feed = new Feed(id, () => draw());
  let span = 120;
  let picked = null; // the key of the decision explained; null: the newest
  let spoken = "";
  let trial = null; // what one has measured
  let zone = null;

  const title = h("h1", { tabindex: "-1" }, id);
  const under = h("p", { class: "under" });
  const paid = h("h3");
  const parts = {
    strip: alarmStrip(id, () => feed.refresh()),
    instruction: instructionPanel(),
    controls: controls(() => feed.refresh()),
    tiles: tiles(),
    promise: promise(),
    field: fieldChart({ pick: (k) => pick(keyOf(shown()[k])) }),
    charge: chargeStrip(),
    costs: costChart(),
    why: explanation(id, {
      follow: () => pick(null),
      found: (row, { data }) => {
        const probabilities = row.proposed === null ? null : data.probabilities; // not to be shown while it observes
        if (row.round === feed.rows.at(-1).round) parts.pending.setLast({ ...row, probabilities });
      },
    }),
    pending: pendingPanel(() => feed.refresh()),
    alarms: alarmList(),
    facts: facts(),
    table: decisionTable({
      pick: (key) => pick(key, true),
      earlier: () => feed.loadEarlier(),
      takeBack: async (row) => {
        if ((await takeBack(feed.state, row)) === null) return;
        announce(`The measurement of round ${row.round} has been taken back.`);
        await feed.load();
      },
    }),
    record: recordPanel(id),
    check: modelCheckPanel(id),
    audit: auditPanel(id),
    away: putAway(() => feed.load(), leave),
    trial: trialPanel(id, (found) => {
      trial = found;
      if (feed.state) parts.tiles.update({ ...feed.state, trial_found: trial });
    }),
  };
  const spans = h(
    "select",
    { onchange: async () => {
      span = Number(spans.value);
      spans.disabled = true;
      await feed.want(span).catch(() => {}); // the connection tells the reader when the service is away
      spans.disabled = false;
      draw();
    } },
    SPANS.map((n) => h("option", { value: n }, `last ${n.toLocaleString("en")} rounds`)),
  );
  spans.value = String(span);
  const axes = h(
    "select",
    { onchange: () => {
      sessionStorage.setItem(AXIS, axes.value);
      draw();
    } },
    Object.entries(AXES).map(([value, text]) => h("option", { value }, text)),
  );
  axes.value = sessionStorage.getItem(AXIS) ?? "clock";

  /** A button that changes the settings, for those who may. */
  const editing = (text, edit, said) =>
    h("button", { type: "button", onclick: async () => {
      try {
        if ((await edit(feed.state)) === null) return;
      } catch (refused) {
        announce(refused.message);
        return;
      }
      announce(said);
      await feed.load();
    } }, text);
  const edits = h(
    "p",
    { class: "buttons", hidden: true },
    editing("Limits …", editLimits, "The limits have been changed."),
    editing("Price of moving …", editPrice, "The price has been changed."),
    editing("Name and time zone …", editNames, "The settings have been changed."),
  );

  /** It is gone: to the others. */
  function leave() {
    if (location.hash !== "#/") location.hash = "#/";
  }

  const drawTitle = drawn(under, (state) => [
    statusBadge(state.status),
    h("span", {}, statusOf(state.status).long),
    h("span", { class: "small" }, state.last_at ? ["Last contact ", agoOf(state.last_at)] : "No contact yet"),
  ]);

  const shown = () => feed.rows.slice(-span);

  function setZone(state) {
    if (state.zone === zone) return;
    zone = state.zone;
    useZone(zone);
  }

  /** Explain one decision; `far`: the explanation may be out of sight of what was pressed. */
  function pick(key, far = false) {
    picked = key;
    drawPicked();
    const row = feed.rows.find((r) => keyOf(r) === picked);
    if (row) parts.why.speakNext();
    if (row && far) parts.why.show();
  }

  function drawPicked() {
    const row = feed.rows.find((r) => keyOf(r) === picked) ?? null;
    parts.table.select(picked);
    parts.field.select(row ? shown().indexOf(row) : -1);
    parts.why.update(row ?? feed.rows.at(-1) ?? null, feed.state, row !== null);
  }

  function draw() {
    const { state, rows } = feed;
    if (!state) return;
    content.hidden = false;
    setZone(state);
    const byClock = axes.value === "clock";
    const name = state.name || state.id;
    if (title.textContent !== name) title.textContent = name;
    document.title = `${name} · holdcourse`;
    drawTitle({ status: state.status, last_at: state.last_at, zone });
    parts.strip.update(state.alarms, Boolean(feed.may.admin));
    parts.instruction.update({ state, rows });
    parts.controls.update(state, feed.may);
    parts.trial.update(state);
    parts.tiles.update({ ...state, trial_found: trial });
    parts.promise.update(state);
    parts.field.update({ rows: shown(), field: feed.field, fieldNote: feed.fieldNote, state, byClock });
    parts.charge.update({ rows: shown(), byClock });
    say(paid, state.maximise || typeof state.made === "number" ? "Gains and costs so far" : "Costs so far");
    parts.costs.update({ rows: shown(), state, byClock });
    parts.pending.update(state, feed.may);
    parts.alarms.update(feed.alarms, zone);
    parts.facts.update(state);
    edits.hidden = !feed.may.admin;
    parts.record.update(feed.scopes);
    parts.check.update(state);
    parts.audit.update(`${feed.deeds} ${zone}`);
    parts.away.update(state, feed.scopes);
    parts.table.update({ rows, state, more: feed.more, may: feed.may });
    drawPicked();
    const { verb, value } = instruct(state, rows);
    const trouble = ["stale", "silent", "broken"].includes(state.status) ? ` It is ${statusOf(state.status).word}.` : "";
    const sentence = `${name}: ${verb} ${value}.${trouble}`;
    if (spoken && sentence !== spoken) announce(sentence); // a change, not every round
    spoken = sentence;
  }

  const content = h(
    "div",
    { hidden: true }, // until there is something to show
    parts.strip.node,
    h("div", { class: "command" }, parts.instruction.node, parts.controls.node),
    parts.tiles.node,
    parts.promise.node,
    parts.trial.node,
    h(
      "section",
      { "aria-labelledby": "did" },
      h("div", { class: "row" }, h("h2", { id: "did" }, "What it did, and why"), h("p", { class: "choices small" }, h("label", {}, "Show ", spans), h("label", {}, "by ", axes))),
      h(
        "div",
        { class: "split" },
        h("div", {}, parts.field.node, parts.charge.node, paid, parts.costs.node),
        parts.why.node,
      ),
    ),
    h(
      "div",
      { class: "split even" },
      section("pending", "Pending decision", parts.pending.node),
      section("limits", "Limits and configuration", parts.facts.node, edits),
    ),
    section("recent", "Recent decisions", exportButtons(id), parts.table.node),
    h("div", { class: "split even" }, section("alarms", "Alarms", parts.alarms.node), section("check", "Check of the model", parts.check.node)),
    section("audit", "Who changed what", parts.audit.node),
    h("div", { class: "split even" }, section("record", "Record", parts.record.node), section("away", "Archive", parts.away.node)),
    h("p", { class: "small foot" }, ABOUT_GAINS),
  );
  fill(main, h("p", { class: "crumbs" }, h("a", { href: "#/" }, "← All controllers")), title, under, content);

  const link = connect(pathOf(id, "events"), () => feed.load(), (kind, data) => (data?.deleted ? leave() : feed.hear(kind)));
  return {
    title,
    stop() {
      link.stop();
      feed.stop();
      parts.field.stop();
      parts.charge.stop();
      parts.costs.stop();
    },
  };
}
