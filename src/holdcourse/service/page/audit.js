// The audit trail: who changed what, when and why. It is loaded when somebody looks, and again after each change.

import { get, pathOf } from "./api.js";
import { timeOf } from "./badges.js";
import { fill, h, say } from "./dom.js";
import { authorOf } from "./words.js";

const PAGE = 25;
const KINDS = {
  "": "everything",
  mode: "mode",
  override: "override",
  limits: "limits",
  price: "price of moving",
  settings: "other settings",
  trial: "trials",
  retract: "measurements taken back",
  acknowledge: "alarms seen",
  episode: "episodes",
  archive: "archived",
  restore: "brought back",
  created: "created",
};

export function auditPanel(id) {
  const kind = h("select", { onchange: () => load(false) }, Object.entries(KINDS).map(([value, text]) => h("option", { value }, text)));
  const who = h("input", { type: "search", maxlength: 200, autocomplete: "off", onchange: () => load(false) });
  const body = h("tbody");
  const status = h("p", { class: "small", role: "status" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load(true) }, "Older");
  const table = h(
    "table",
    { class: "audit" },
    h("caption", { class: "unseen" }, "Changes, the newest first"),
    h("thead", {}, h("tr", {}, ["When", "Who", "What", "Why"].map((text) => h("th", { scope: "col" }, text)))),
    body,
  );
  const node = h(
    "div",
    {},
    h("p", { class: "filters" }, h("label", {}, "Show ", kind), h("label", {}, "by ", who)),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Who changed what" }, table),
    status,
    h("p", { class: "buttons" }, more),
  );
  let next = null;
  let known = null; // the state that was loaded
  let asked = 0;

  const row = (deed) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, timeOf(deed.at)),
      h("td", {}, deed.by ? authorOf(deed.by) : "the service"),
      h("td", {}, deed.words),
      h("td", {}, deed.reason || h("span", { class: "small" }, "no reason given")),
    );

  async function load(further) {
    const query = new URLSearchParams({ limit: PAGE, ...(kind.value && { kind: kind.value }), ...(who.value.trim() && { who: who.value.trim() }), ...(further && next && { before: next }) });
    const mine = ++asked;
    try {
      const found = await get(`${pathOf(id, "audit")}?${query}`);
      if (mine !== asked) return;
      next = found.next;
      const rows = found.deeds.map(row);
      if (further) body.append(...rows);
      else fill(body, rows);
      more.hidden = next === null;
      say(status, body.children.length ? "" : "There are no changes of this kind.");
    } catch (refused) {
      if (mine === asked) say(status, refused.message);
    }
  }

  return {
    node,
    /** `version` changes whenever somebody has done something. */
    update(version) {
      if (version === known) return;
      known = version;
      load(false);
    },
  };
}
