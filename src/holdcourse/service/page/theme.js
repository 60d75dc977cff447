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

export function offerTheme(button) {
  const kept = localStorage.getItem(KEY);
  if (kept) root.dataset.theme = kept;
  system.addEventListener("change", changed);
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem(KEY, root.dataset.theme);
    changed();
  });
}
