// Making and filling elements. Text goes in as text, never as markup: what an operator typed cannot become a script.

const SVG = "http://www.w3.org/2000/svg";

function apply(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.setAttribute("class", value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}

const known = (child) => child !== null && child !== undefined && child !== false;

/** An element: h("p", { class: "small" }, "text", other). Children that are null or false are left out. */
export function h(tag, props = {}, ...children) {
  const node = apply(document.createElement(tag), props);
  node.append(...children.flat(Infinity).filter(known));
  return node;
}

/** An SVG element. */
export function s(tag, props = {}, ...children) {
  const node = apply(document.createElementNS(SVG, tag), props);
  node.append(...children.flat(Infinity).filter(known));
  return node;
}

/** Replace what is in `node`. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter(known));
  return node;
}

/** Set the text only when it changed: a live region would speak it again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * A function that draws `data` into `node` only when it differs from what was drawn last.
 * Focus and selection survive the updates that change nothing.
 */
export function drawn(node, make) {
  let last;
  return (...data) => {
    const now = JSON.stringify(data);
    if (now === last) return;
    last = now;
    fill(node, make(...data));
  };
}

/** Speak a sentence to screen readers. */
export function announce(text) {
  say(document.getElementById("spoken"), text);
}

let count = 0;
/** An id that no other element has. */
export const fresh = (name) => `${name}-${++count}`;
