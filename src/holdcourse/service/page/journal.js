// The journal of the service, for admins of all controllers: controllers that were deleted, tokens that came and went.

import { get } from "./api.js";
import { timeOf } from "./badges.js";
import { fill, h } from "./dom.js";
import { authorOf, plural } from "./words.js";

const NEWEST = 50;

/** What a line tells, in a sentence. */
function words({ what, token, name, controller, fleet, rounds, count, decisions }) {
  if (what === "controller deleted") return `${name ?? controller} was deleted, with ${plural(rounds ?? 0, "round")}.`;
  if (what === "fleet deleted") return `${name ?? fleet}, a fleet, was deleted, with ${plural(count ?? 0, "member")} and ${plural(decisions ?? 0, "decision")}.`;
  const rights = token && `${token.scopes.join(", ") || "read"} on ${token.controllers.includes("*") ? "all controllers" : token.controllers.join(", ")}`;
  return token ? `${what[0].toUpperCase()}${what.slice(1)}: ${token.name || token.id} (${rights}).` : what;
}

export function journalPanel() {
  const body = h("tbody");
  const status = h("p", { class: "small", role: "status" });
  const table = h(
    "table",
    { class: "audit", hidden: true },
    h("caption", { class: "unseen" }, "Journal, the newest first"),
    h("thead", {}, h("tr", {}, ["When", "Who", "What", "Why"].map((text) => h("th", { scope: "col" }, text)))),
    body,
  );
  const row = (line) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, timeOf(line.decided_at ?? line.at)),
      h("td", {}, line.by ? authorOf(line.by) : "on the command line"),
      h("td", {}, words(line)),
      h("td", {}, line.reason ?? ""),
    );
  const load = async () => {
    if (!node.open) return;
    try {
      const { lines } = await get(`journal?limit=${NEWEST}`);
      fill(body, lines.map(row));
      table.hidden = lines.length === 0;
      fill(status, lines.length ? "" : "Nothing yet.");
    } catch (refused) {
      fill(status, refused.message);
    }
  };
  const node = h("details", { class: "archived", hidden: true, ontoggle: load }, h("summary", {}, "Journal of the service"), table, status);
  return { node, load };
}
