// Making a controller: from a short form, a policy's file, a plant's readings, or from JSON for everything the form leaves out.

import { post, postFile } from "./api.js";
import { ask, field } from "./ask.js";
import { fill, h } from "./dom.js";
import { readPolicy } from "./policy_file.js";
import { isTable, readingsForm } from "./readings.js";
import { MODES, plural, setting, withUnit } from "./words.js";

const MOST_FROM_RANGE = 5000;

const HOW_TO_WRITE = "Numbers separated by commas, or by semicolons if they have decimal commas; or a range: 50 to 300 step 25.";
const MOST_SHOWN = 6;
const BEYOND = "Also further limits, a history to start from, and options of the policy. The fields are described in /openapi.json.";

// As in the table of policies, deciding/registry.py; a test compares them.
const POLICIES = [
  ["recommended", "The policy that we would run. It chooses a method that suits your data, and says what it chose."],
  ["planner", "Learns what each setting costs and which contexts follow which, and plans moves that pay."],
  ["gp-md", "The paper's algorithm: learns what each setting costs and moves with care, by mirror descent on a tree."],
  ["cgp-lcb", "Learns what each setting costs and ignores what moving costs."],
  ["proximal-lcb", "Learns what each setting costs, and chooses the lowest sum of lower bound and move."],
  ["stationary", "Stays at the setting where the run begins, for comparison."],
];

/** A number, with a decimal point or a decimal comma; not what may be read in two ways, such as 1,000. */
const decimal = (text) => (/[1-9]\d*,\d{3}\s*$/.test(text) ? NaN : Number(text.replace(",", ".")));

/** "50, 75, 100", or "0,5; 0,75; 1", or "50 to 300 step 25". */
export function readActions(text) {
  const range = /^\s*(-?[\d.,]+)\s*(?:to|\.\.|…|:)\s*(-?[\d.,]+)\s*(?:(?:step|by|:)\s*([\d.,]+))?\s*$/i.exec(text);
  if (range) {
    const [low, high, step] = [decimal(range[1]), decimal(range[2]), decimal(range[3] ?? "1")];
    const count = Math.floor((high - low) / step + 1e-9) + 1;
    if (!(step > 0) || !(count >= 1) || count > MOST_FROM_RANGE) return [];
    return Array.from({ length: count }, (_, i) => +(low + i * step).toPrecision(12));
  }
  const values = text.split(text.includes(";") ? /[;\n]+/ : /[,\n]+/).filter((part) => part.trim()).map(decimal);
  return values.every(Number.isFinite) ? values : [];
}

/** What was read, so that a mistake is seen: "5 settings: 0, 0.25, 0.5, 0.75, 1". */
export function actionsInWords(values) {
  const shown = values.length > MOST_SHOWN ? [...values.slice(0, MOST_SHOWN - 2), "…", values.at(-1)] : values;
  return `${plural(values.length, "setting")}: ${shown.map((value) => setting(value)).join(", ")}`;
}

/** A choice whose hint says what is chosen. */
function described(label, select, words) {
  const node = field(label, select, words(select.value));
  select.addEventListener("change", () => (node.lastChild.textContent = words(select.value)));
  return node;
}

/** A number where it is one, else the text, which may name a unit. */
const numberOr = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);

/** Names and units of a context: "outdoor (°C), load (kW)". */
function readContexts(text, units) {
  const parts = text.split(",").map((part) => /^\s*([^()]*?)\s*(?:\(([^()]*)\))?\s*$/.exec(part) ?? ["", part.trim(), ""]);
  return { context_names: parts.map((part) => part[1]), units: { ...units, contexts: parts.map((part) => part[2] ?? "") } };
}

function shortForm() {
  const input = (name, props = {}) => h("input", { name, autocomplete: "off", spellcheck: "false", ...props });
  const actions = input("actions", { required: true, placeholder: "50 to 300 step 25" });
  const count = h("span", { class: "small", role: "status" });
  const start = h("select", { name: "start" });
  const scale = input("scale", { placeholder: "1, or 20 Wh/m" });
  const deadline = input("deadline_s", { type: "number", step: "any", min: 1, placeholder: "none" });
  const policy = h("select", { name: "policy" }, POLICIES.map(([value]) => h("option", {}, value)));
  const mode = h("select", { name: "mode" }, Object.entries(MODES).map(([value, { word, long }]) => h("option", { value, title: long }, word)));
  mode.value = "shadow";
  const measures = h("select", { name: "measures" }, h("option", { value: "cost" }, "a cost"), h("option", { value: "gain" }, "a gain"));
  const dwell = input("min_dwell", { type: "number", step: 1, min: 1, placeholder: "1" });
  const step = input("max_step", { placeholder: "any" });
  const contexts = input("contexts", { placeholder: "outdoor (°C), load (kW)" });
  const policyField = described("Policy", policy, (name) => Object.fromEntries(POLICIES)[name]);
  const modeField = described("Mode to begin with", mode, (name) => MODES[name].long);

  const refresh = () => {
    const values = readActions(actions.value);
    const kept = start.value;
    fill(start, values.map((value, i) => h("option", { value: i }, setting(value))));
    if (kept && Number(kept) < values.length) start.value = kept;
    count.textContent = actions.value.trim() ? (values.length ? actionsInWords(values) : "Write numbers, or a range") : "";
    actions.setCustomValidity(values.length > 1 ? "" : "Give at least two settings: 50, 75, 100 or 50 to 300 step 25");
  };
  actions.addEventListener("input", refresh);
  const id = input("id", { required: true, pattern: "[a-z0-9_\\-]+", maxlength: 64, autofocus: true });
  const node = h(
    "div",
    { class: "grid" },
    field("Id", id, "Lower-case letters, digits, - and _. It cannot be changed later."),
    field("Name", input("name", { maxlength: 200 }), "The name that people use for the machine."),
    h("div", { class: "whole" }, field("Settings to choose from", actions, HOW_TO_WRITE), count),
    field("Unit of a setting", input("unit_action", { placeholder: "m" })),
    field("Unit of a measurement", input("unit_measurement", { placeholder: "kWh" })),
    described("I measure", measures, (what) => (what === "gain" ? "More is better: energy made, money earned." : "Less is better: energy used, money spent.")),
    field("Start at", start),
    h("div", { class: "whole" }, field("What a move costs", scale, "Per unit of setting, in the unit of a measurement; or a price with its units. If empty, 1.")),
    policyField,
    modeField,
    field("Minimum dwell time", dwell, "Rounds that the machine stays at a setting before the next move."),
    field("Longest single move", step, "In the unit of a setting. Settings further away are reached in several moves."),
    field("Known before each decision", contexts, "The numbers of a context in order, each with its unit in brackets."),
    field("Deadline (s)", deadline, "The longest time to wait for a measurement, and then for the next request. After that, an alarm is raised."),
  );
  const read = (form) => {
    const text = (name) => form.elements[name].value.trim();
    const config = {
      id: text("id"),
      actions: readActions(text("actions")),
      policy: text("policy"),
      start: readActions(text("actions"))[Number(text("start"))],
      mode: text("mode"),
    };
    if (text("measures") === "gain") config.options = { maximise: true };
    const limits = Object.fromEntries(["min_dwell", "max_step"].filter(text).map((name) => [name, numberOr(text(name))]));
    if (Object.keys(limits).length) config.limits = limits;
    if (text("name")) config.name = text("name");
    if (text("scale")) config.scale = numberOr(text("scale"));
    if (text("deadline_s")) config.deadline_s = Number(text("deadline_s"));
    config.units = { action: text("unit_action"), measurement: text("unit_measurement") };
    if (text("contexts")) Object.assign(config, readContexts(text("contexts"), config.units));
    return config;
  };
  return { node, read };
}

const ABOUT_FILES = "Written by holdcourse backtest --save, or policy.save. You can also drop it on the page.";

/** A policy that was saved: it says what it decides; what is asked here is which machine it is for. */
function fileForm() {
  const file = h("input", { type: "file", name: "policy_file", required: true });
  const input = (name, props = {}) => h("input", { name, autocomplete: "off", spellcheck: "false", ...props });
  const id = input("file_id", { required: true, pattern: "[a-z0-9_\\-]+", maxlength: 64 });
  const start = h("select", { name: "file_start" });
  const mode = h("select", { name: "file_mode" }, Object.entries(MODES).map(([value, { word, long }]) => h("option", { value, title: long }, word)));
  mode.value = "shadow";
  const about = h("div", { class: "whole", role: "status" });
  let chosen = null;
  const take = async (given) => {
    chosen = given;
    const policy = given && (await readPolicy(given));
    fill(start, policy ? policy.settings.map((value, i) => h("option", { value: i }, withUnit(value, policy.unit))) : []);
    const unknown = "This does not look like a policy that holdcourse saved; the service will say what is wrong with it.";
    const words = policy ? [h("p", {}, h("b", {}, policy.name)), h("ul", {}, policy.known.map((said) => h("li", {}, said)))] : h("p", {}, unknown);
    fill(about, given && words);
  };
  file.addEventListener("change", () => take(file.files[0] ?? null));
  const node = h(
    "div",
    { class: "grid" },
    h("div", { class: "whole" }, field("File of the policy", file, ABOUT_FILES)),
    about,
    field("Id", id, "Lower-case letters, digits, - and _. It cannot be changed later."),
    field("Name", input("file_name", { maxlength: 200 }), "The name that people use for the machine."),
    field("The machine is at", start),
    described("Mode to begin with", mode, (name) => MODES[name].long),
    field("Deadline (s)", input("file_deadline", { type: "number", step: "any", min: 1, placeholder: "none" }), "The longest time to wait for a measurement, and then for the next request."),
  );
  const give = (given) => {
    file.required = false;
    return take(given);
  };
  const send = (form, report) => {
    const text = (name) => form.elements[name].value.trim();
    const settings = { id: text("file_id"), mode: text("file_mode") };
    if (text("file_start")) settings.start_index = text("file_start");
    if (text("file_name")) settings.name = text("file_name");
    if (text("file_deadline")) settings.deadline_s = text("file_deadline");
    return postFile(`controllers?${new URLSearchParams(settings)}`, chosen, report);
  };
  return { node, give, send };
}

/** JSON to read: one line per field, lists of numbers not broken. */
const pretty = (config) => JSON.stringify(config, null, 2).replace(/\[[\s\d.,eE+-]+\]/g, (list) => list.replace(/\s+/g, " "));

function jsonForm() {
  const text = h("textarea", { name: "json", rows: 14, spellcheck: "false" });
  const file = h("input", { type: "file", accept: ".json,application/json" });
  file.addEventListener("change", async () => {
    if (file.files[0]) text.value = await file.files[0].text();
  });
  const node = h("div", {}, field("Configuration as JSON", text, BEYOND), field("Or read it from a file", file));
  return { node, text };
}

/** Ask for a controller and make it; resolves to its state, or null. `file`: a policy or readings that were dropped on the page. */
export function createController(file = null) {
  const short = shortForm();
  const saved = fileForm();
  const table = readingsForm();
  const long = jsonForm();
  const first = !file ? "form" : isTable(file) ? "readings" : "file";
  const choose = (name, label, checked) =>
    h("label", {}, h("input", { type: "radio", name: "how", value: name, checked, onchange: () => show(name) }), ` ${label}`);
  const how = h("fieldset", { class: "how" }, h("legend", {}, "How"), choose("form", "Short form", first === "form"), choose("file", "From a file", first === "file"), choose("readings", "From readings", first === "readings"), choose("json", "JSON"));
  const parts = { form: short, file: saved, readings: table, json: long };
  const place = h("div");
  const body = h("div", {}, how, place);

  function show(name) {
    const form = body.closest("form");
    if (name === "json" && form?.elements.actions && !long.text.value.trim()) long.text.value = pretty(short.read(form));
    fill(place, parts[name].node);
    if (name === "json") {
      long.text.focus();
      long.text.setSelectionRange(0, 0);
    }
  }
  show(first);
  if (file) parts[first].give(file);

  return ask({
    title: "New controller",
    body,
    confirm: "Create",
    wide: true,
    act: (form, report) => {
      if (form.elements.how.value === "form") return post("controllers", short.read(form));
      if (form.elements.how.value === "file") return saved.send(form, report);
      if (form.elements.how.value === "readings") return table.send(form, report);
      let config;
      try {
        config = JSON.parse(long.text.value);
      } catch (problem) {
        throw new Error(`This is not JSON: ${problem.message}`);
      }
      return post("controllers", config, report);
    },
  });
}
