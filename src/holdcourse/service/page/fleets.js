// The fleets in the overview: a row for each, whatever the number of its members.

import { agoOf, statusBadge } from "./badges.js";
import { h } from "./dom.js";
import { cell, listTable, nameCell } from "./list_table.js";
import { fleetStatus, plural } from "./words.js";

const COLUMNS = ["Fleet", "State", "Policy", "Members", "Awaited", "Asked", "Last activity"];

export const fleetAddress = (id) => `#/f/${encodeURIComponent(id)}`;

function cells(one) {
  const known = (value, ...children) => (value === null ? "–" : children);
  return [
    nameCell(fleetAddress(one.id), one),
    cell(COLUMNS[1], statusBadge(one.status, fleetStatus(one.status).long), one.message && h("span", { class: "small" }, one.message)),
    cell(COLUMNS[2], one.policy ?? "–"),
    cell(COLUMNS[3], known(one.count, h("b", {}, (one.count ?? 0).toLocaleString("en")))),
    cell(COLUMNS[4], known(one.pending, one.pending ? plural(one.pending, "measurement") : "none")),
    cell(COLUMNS[5], known(one.next_call, one.next_call ? plural(one.next_call, "time") : "never", one.next_call > 0 && h("span", { class: "small" }, plural(one.decisions ?? 0, "decision")))),
    cell(COLUMNS[6], one.last_at ? agoOf(one.last_at) : "–"),
  ];
}

/** The section of all fleets; hidden while there is none. */
export function fleetSection() {
  const table = listTable({ caption: "All fleets; those that need attention come first", columns: COLUMNS, cells, first: ["broken"] });
  const node = h("section", { "aria-labelledby": "fleets", hidden: true }, h("h2", { id: "fleets" }, "Fleets"), table.node);
  return {
    node,
    draw(all) {
      node.hidden = all.length === 0;
      table.draw(all.map((one) => ({ ...one, status: stateOf(one) })));
    },
  };
}

/** What state a fleet is in: whether it can be used, and whether it is waited for. */
export const stateOf = ({ status = "ok", next_call, pending }) => (status !== "ok" ? status : pending ? "waiting" : next_call ? "ok" : "new");

/** All fleets in a few words, for the line below the title. */
export function fleetsInWords(all) {
  const broken = all.filter((one) => one.status === "broken").length;
  const members = all.reduce((sum, one) => sum + (one.count ?? 0), 0);
  return `${plural(all.length, "fleet")} with ${plural(members, "member")}${broken ? `, ${broken} broken` : ""}.`;
}
