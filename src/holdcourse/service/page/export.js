// All rounds as a file, for spreadsheets and other programs.

import { pathOf, send } from "./api.js";
import { h, say } from "./dom.js";

const KINDS = { csv: "CSV", parquet: "Parquet" };

/** Give the reader a file; the address of what it holds is let go at once. */
function save(content, name) {
  const address = URL.createObjectURL(content);
  h("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}

export function exportButtons(id) {
  const said = h("span", { class: "small", role: "status" });
  const run = (kind) => async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    say(said, "Writing …");
    try {
      save(await (await send(pathOf(id, `rounds.${kind}`))).blob(), `${id}.${kind}`);
      say(said, "Saved.");
    } catch (refused) {
      say(said, refused.message);
    }
    button.disabled = false;
    button.focus();
  };
  const button = ([kind, word]) => h("button", { type: "button", "aria-label": `Export all rounds as ${word}`, onclick: run(kind) }, word);
  return h("p", { class: "export" }, h("span", { class: "small" }, "Export all rounds: "), Object.entries(KINDS).map(button), said);
}
