// A table of controllers, or of fleets, whose rows keep their elements, and their focus, from one look to the next. On a
// narrow screen each row is a card.

import { drawn, h } from "./dom.js";

/** A cell that says on a card what it is. */
export const cell = (label, ...children) => h("td", { role: "cell", "data-label": label }, h("span", {}, children));

/** The first cell of a row: the name, which leads to the view of its own, and the id where that is another. */
export const nameCell = (address, { id, name }) =>
  h("th", { scope: "row", role: "rowheader" }, h("a", { href: address }, name.trim() || id), name !== id && h("span", { class: "small" }, id));

/** `cells(one)` are those of a row; `first` are the states that need somebody, which come first. */
export function listTable({ caption, columns, cells, first }) {
  const body = h("tbody", { role: "rowgroup" });
  const made = new Map();
  const node = h(
    "table",
    { class: "controllers", role: "table", hidden: true }, // until there is something to show
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((text) => h("th", { scope: "col", role: "columnheader" }, text)))),
    body,
  );
  const place = (status) => (first.includes(status) ? first.indexOf(status) : first.length);

  function draw(all) {
    node.hidden = all.length === 0;
    const sorted = [...all].sort((a, b) => place(a.status) - place(b.status) || a.id.localeCompare(b.id));
    const nodes = sorted.map((one) => {
      const entry = made.get(one.id) ?? { node: h("tr", { role: "row" }) };
      entry.draw ??= drawn(entry.node, cells);
      entry.node.className = `is-${one.status}`;
      entry.draw(one);
      made.set(one.id, entry);
      return entry.node;
    });
    const focused = document.activeElement;
    for (const old of [...body.children]) if (!nodes.includes(old)) old.remove();
    nodes.forEach((tr, i) => body.children[i] !== tr && body.insertBefore(tr, body.children[i] ?? null));
    if (focused !== document.activeElement && focused?.isConnected) focused.focus(); // moving an element takes its focus
  }
  return { node, draw };
}
