// Light or dark: as the system says, until the reader says otherwise.

const KEY = "holdcourse-theme";
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

export const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

/** A colour of the style sheet, for what is drawn on a canvas. */
export const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

/** Call `draw` whenever the colours change; returns what undoes it. */
export function onColours(draw) {
  listeners.add(draw);
  return () => listeners.delete(draw);
}

const changed = () => listeners.forEach((draw) => draw());

let before = null; // what was chosen while a print is made, which is always light

function printing(begins) {
  if (begins === (before !== null)) return;
  if (begins) {
    before = root.dataset.theme ?? "";
    root.dataset.theme = "light";
  } else {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    before = null;
  }
  changed();
}

export function offerTheme(button) {
  const kept = localStorage.getItem(KEY);
  if (kept) root.dataset.theme = kept;
  system.addEventListener("change", changed);
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
  matchMedia("print").addEventListener("change", ({ matches }) => printing(matches));
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem(KEY, root.dataset.theme);
    changed();
  });
}
