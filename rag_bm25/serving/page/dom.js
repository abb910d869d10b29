// Elements, made without any HTML text: what a chunk holds is only ever shown as text.

import { classes } from "./markdown.js";

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

/** Call a function once its calls pause for some milliseconds. */
export function debounced(wait, call) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), wait);
  };
}

/**
 * Return a text with marks, given by pairs of start and end, and with the signs of Markdown set off.
 * Places count characters as Python does; JavaScript counts some as two, so the text is cut into characters first.
 */
export function marked(text, marks = [], offset = 0, styles = stylesOf(text)) {
  const characters = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of marks) {
    parts.push(styled(characters, styles, at, start - offset));
    parts.push(h("mark", {}, styled(characters, styles, start - offset, end - offset)));
    at = end - offset;
  }
  return [...parts, styled(characters, styles, at, characters.length)];
}

/** Return the places of all marks of highlights, in the order of the text. */
export function marksOf(highlights = []) {
  return highlights.flatMap((fragment) => fragment.marks).sort(([a], [b]) => a - b);
}

/** Return the classes of each character of a text. */
export function stylesOf(text) {
  const found = classes(text);
  let unit = 0;
  return Array.from(text, (character) => found[(unit += character.length) - character.length]);
}

/** Return a piece of a text, with an element for each run of characters of a style. */
function styled(characters, styles, start, end) {
  const runs = [];
  for (let at = start, next; at < end; at = next) {
    for (next = at + 1; next < end && styles[next] === styles[at]; ) next++;
    const run = characters.slice(at, next).join("");
    runs.push(styles[at] ? h("span", { class: styles[at] }, run) : run);
  }
  return runs;
}

/** Return a bar whose width is a share of the whole, in 0..1. */
export function bar(share, label) {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "track", role: "img", "aria-label": label }, fill);
}
