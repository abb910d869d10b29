// The last word of a query, completed while one types: a combobox.

import { ask } from "./api.js";
import { debounced, h } from "./dom.js";
import { t } from "./texts.js";

const WAIT = 120; // milliseconds after a keystroke
const HITS = 20; // whose words are offered
const OFFERED = 6;
const LONGEST = 40; // characters of a word
const COMPLETED = "completed";
const LAST_WORD = /[\p{L}\p{N}_]{2,}$|\p{Script=Han}$/u;
const WORD = /^[\p{L}\p{N}_'’-]+$/u;
const HAN = /\p{Script=Han}/u;

/** Return a field with a list of what its last word may become; `where` returns the scope of the search. */
export function completing(box, where) {
  const list = h("ul", { id: "completions", role: "listbox", "aria-label": t("completions"), hidden: true });
  let running = new AbortController();
  let chosen = -1;
  let wanted = false; // until the query is sent or changed
  const attributes = { role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" };
  for (const [name, value] of Object.entries(attributes)) box.setAttribute(name, value);

  function show(queries) {
    list.replaceChildren(...queries.map((query, at) =>
      h("li", { role: "option", id: `completion-${at}`, onmousedown: (event) => (event.preventDefault(), take(at)) }, query)));
    list.hidden = !queries.length;
    box.setAttribute("aria-expanded", String(!list.hidden));
    choose(-1);
  }

  function choose(at) {
    chosen = at;
    [...list.children].forEach((option, place) => option.setAttribute("aria-selected", String(place === at)));
    if (at < 0) box.removeAttribute("aria-activedescendant");
    else box.setAttribute("aria-activedescendant", list.children[at].id);
  }

  function take(at) {
    box.value = list.children[at].textContent;
    close();
    box.dispatchEvent(new CustomEvent("input", { detail: COMPLETED }));
  }

  function close() {
    wanted = false;
    running.abort();
    show([]);
  }

  const look = debounced(WAIT, async () => {
    const typed = box.value;
    const word = typed.match(LAST_WORD)?.[0].slice(-LONGEST);
    if (!word || !wanted) return;
    running = new AbortController();
    try {
      const asked = { query: `${word}*`, syntax: true, k: HITS, highlight: true, max_text: 1, ...where() };
      const { hits } = await ask("search", asked, running.signal);
      show(completions(typed, word, hits));
    } catch {
      show([]); // the search itself says what is wrong
    }
  });

  box.addEventListener("input", (event) => {
    if (event.isComposing) return;
    close();
    wanted = event.detail !== COMPLETED;
    look();
  });
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (event.isComposing || event.shiftKey) return;
    if (event.key === "Enter" && chosen < 0) close(); // also one that is still to come
    if (list.hidden) return;
    if (event.key === "ArrowDown" && chosen < list.children.length - 1) choose(chosen + 1);
    else if (event.key === "ArrowUp" && chosen >= 0) choose(chosen - 1);
    else if (event.key === "Enter" && chosen >= 0) take(chosen);
    else if (event.key === "Tab" && chosen >= 0) return take(chosen); // and the focus leaves
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return h("div", { class: "completing" }, box, list);
}

/** Return what marked words of hits make of a query, the most frequent first; nothing if its last word is one of them. */
function completions(typed, word, hits) {
  const counts = new Map();
  for (const form of hits.flatMap((hit) => [...new Set(hit.highlights?.flatMap(formsOf))])) {
    const known = overlap(word, form);
    const query = typed + form.slice(known);
    if (known) counts.set(query, (counts.get(query) ?? 0) + 1);
  }
  if (!HAN.test(word) && counts.has(typed)) return [];
  counts.delete(typed);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, OFFERED).map(([query]) => query);
}

function formsOf({ text, start, marks }) {
  const characters = Array.from(text);
  const forms = marks.map(([from, to]) => characters.slice(from - start, to - start).join("").toLowerCase());
  return forms.filter((form) => WORD.test(form));
}

/** Return how many characters of a form are typed: all of the word, or the end of one of Chinese. */
function overlap(word, form) {
  const typed = word.toLowerCase();
  if (!HAN.test(word)) return form.startsWith(typed) ? word.length : 0;
  let length = form.length;
  while (length && !typed.endsWith(form.slice(0, length))) length--;
  return length;
}
