// A plant's own table to start from: the service says what it holds, and the reader confirms which column is which.

import { postTable } from "./api.js";
import { field } from "./ask.js";
import { fill, h } from "./dom.js";
import { MODES, plural, setting, withUnit } from "./words.js";

const TABLE_NAMES = /\.(csv|txt|tsv|xlsx|parquet|gz)$/i;
const ABOUT = "CSV, Excel or Parquet: a row per measurement. It is read as the command holdcourse data info reads it, and is not stored.";
const KNOWN = "Columns, separated by commas; also hour, weekday, load@-1 (the reading before) and load - load@-24h.";
const OPEN = "Options that the message above asks for, separated by spaces: decimal=comma missing=-9999";

/** Whether a file that was dropped looks like a table, by its name. */
export const isTable = (file) => TABLE_NAMES.test(file.name);

/** "decimal=comma missing=-9999" as pairs; a value with blanks in quotation marks. */
export function readPairs(text) {
  return [...text.matchAll(/([a-z_]+)=(?:"([^"]*)"|'([^']*)'|(\S+))/g)].map((found) => [found[1], found[2] ?? found[3] ?? found[4]]);
}

export function readingsForm() {
  const file = h("input", { type: "file", name: "table", required: true, accept: ".csv,.txt,.tsv,.xlsx,.parquet,.gz" });
  const input = (name, props = {}) => h("input", { name, autocomplete: "off", spellcheck: "false", ...props });
  const choice = (name, required) => h("select", { name, required });
  const [action, cost] = ["table_action", "table_cost"].map((name) => choice(name, true));
  const [time, start] = ["table_time", "table_start"].map((name) => choice(name, false));
  const context = input("table_context", { required: true, placeholder: "load, outdoor, hour" });
  const zone = input("table_timezone", { placeholder: "Europe/Oslo" });
  const open = input("table_open", { placeholder: "decimal=comma" });
  const mode = h("select", { name: "table_mode" }, Object.entries(MODES).map(([value, { word, long }]) => h("option", { value, title: long }, word)));
  mode.value = "shadow";
  const about = h("div", { class: "whole", role: "status" });
  const problem = h("p", { class: "problem whole", hidden: true });
  const rest = h("div", { class: "whole grid", hidden: true });
  let chosen = null;
  let read = null;
  let turn = 0;
  let looked = null; // the newest look, and what it led to

  /** What the form says about the table, as the service takes it; columns only once there are some. */
  const said = () => {
    const given = { file_name: chosen.name, time: time.value, timezone: zone.value.trim(), ...Object.fromEntries(readPairs(open.value)) };
    if (!rest.hidden) Object.assign(given, { action: action.value, cost: cost.value, context: context.value.trim() });
    return Object.entries(given).filter(([, value]) => value);
  };

  /** Look at the table, with what the form says of it; only the newest answer counts. */
  function look() {
    looked = lookOnce();
    return looked;
  }

  async function lookOnce() {
    const mine = ++turn;
    read = null;
    try {
      const found = await postTable(`readings?${new URLSearchParams(said())}`, chosen);
      if (mine !== turn) return;
      problem.hidden = true;
      await (rest.hidden ? offer(found) : show(found));
    } catch (refused) {
      if (mine !== turn) return;
      problem.textContent = refused.message;
      problem.hidden = false;
    }
  }

  /** Offer what was found, to be confirmed. */
  function offer(found) {
    const names = found.columns.map((column) => column.name);
    const options = (node, none) => fill(node, h("option", { value: "" }, none), names.map((name) => h("option", { value: name }, name)));
    options(action, "choose …");
    options(cost, "choose …");
    options(time, "rows are in order").value = found.time[0] ?? "";
    context.value = "";
    suggest(found);
    rest.hidden = false;
    return look();
  }

  /** Fill what is empty with what may be meant; whether there was something. */
  function suggest(found) {
    const likely = [[action, found.settings[0]], [cost, found.costs[0]], [context, found.contexts.slice(0, 2).join(", ")]];
    const now = likely.filter(([node, value]) => !node.value && value);
    for (const [node, value] of now) node.value = value;
    return now.length > 0;
  }

  /** Show what was read. */
  function show(found) {
    read = found.read;
    if (!read && suggest(found)) return look();
    const span = found.start && `${found.start.slice(0, 10)} to ${found.end.slice(0, 10)}`;
    const count = read && `${plural(read.rows, "reading")}${span ? `, ${span}` : ""}, ${plural(read.settings.length, "setting")}`;
    const remarks = [...(read?.notes ?? []), ...found.remarks.map((remark) => `Check: ${remark}`)];
    fill(about, count && h("p", {}, h("b", {}, count)), h("ul", {}, remarks.map((text) => h("li", {}, text))));
    fill(start, read?.settings.map((value, i) => h("option", { value: i }, withUnit(setting(value), read.units.action))) ?? []);
    if (read) start.value = String(read.settings.indexOf(read.newest));
    return null;
  }

  const take = (given) => {
    chosen = given;
    rest.hidden = true;
    fill(about);
    return given && look();
  };
  file.addEventListener("change", () => take(file.files[0] ?? null));
  for (const node of [action, cost, time, context, zone, open]) node.addEventListener("change", () => chosen && look());
  const scale = input("table_scale", { placeholder: "1, or 20 Wh/K" });
  fill(
    rest,
    field("Column of the setting", action),
    field("Column of what was measured", cost),
    h("div", { class: "whole" }, field("Known before each decision", context, KNOWN)),
    field("Column of the time", time),
    field("Time zone", zone, "The time zone of times that have none."),
    h("div", { class: "whole" }, field("What the file does not make clear", open, OPEN)),
    about,
    field("Id", input("table_id", { required: true, pattern: "[a-z0-9_\\-]+", maxlength: 64 }), "Lower-case letters, digits, - and _. It cannot be changed later."),
    field("Name", input("table_name", { maxlength: 200 }), "The name that people use for the machine."),
    field("The machine is at", start, "The setting of the newest row, unless you choose another."),
    field("What a move costs", scale, "Per unit of setting, or for each change between named settings; or a price with its units."),
    field("Mode to begin with", mode, "It learns from the table at once."),
    field("Minimum dwell time", input("table_dwell", { placeholder: "1" }), "Rounds that the machine stays at a setting before the next move."),
  );
  const node = h("div", { class: "grid" }, h("div", { class: "whole" }, field("File of readings", file, ABOUT)), problem, rest);
  const give = (given) => {
    file.required = false;
    return take(given);
  };
  const send = async (form, report) => {
    if (!chosen) throw new Error("Choose a file first.");
    for (let last; last !== looked; ) await (last = looked); // what was changed just now is looked at first
    if (!read) throw new Error(problem.hidden ? "Choose the columns of the setting, of the measurement and of what was known before." : problem.textContent);
    const text = (name) => form.elements[name].value.trim();
    const settings = { id: text("table_id"), mode: text("table_mode"), start_index: text("table_start") };
    if (text("table_name")) settings.name = text("table_name");
    const names = read.settings.some((value) => typeof value === "string");
    if (text("table_scale")) settings[names ? "fixed_cost" : "scale"] = text("table_scale");
    if (text("table_dwell")) settings.limits = JSON.stringify({ min_dwell: Number(text("table_dwell")) || text("table_dwell") });
    return postTable(`controllers?${new URLSearchParams([...said(), ...Object.entries(settings)])}`, chosen, report);
  };
  return { node, give, send };
}
