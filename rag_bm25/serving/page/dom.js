// Elements, made without any HTML text: what a chunk holds is only ever shown as text.

/**
 * Make an element.
 * @param {string} tag
 * @param {Object<string, any>} attributes  `on...` are listeners; null, undefined and false are left out
 * @param {...(Node|string|number|null|Array)} children
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Make an element of a drawing. */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}

/** Call a function once its calls pause for some milliseconds. */
export function debounced(wait, call) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), wait);
  };
}

/**
 * Return a text with marks, given by pairs of start and end.
 * Places count characters as Python does; JavaScript counts some as two, so the text is cut into characters first.
 */
export function marked(text, marks, offset = 0) {
  const characters = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of marks) {
    parts.push(characters.slice(at, start - offset).join(""));
    parts.push(h("mark", {}, characters.slice(start - offset, end - offset).join("")));
    at = end - offset;
  }
  parts.push(characters.slice(at).join(""));
  return parts;
}

/** Return a bar whose width is a share of the whole, in 0..1. */
export function bar(share, label) {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "track", role: "img", "aria-label": label }, fill);
}
