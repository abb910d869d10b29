// Two configurations of a search side by side, and what moved.

import { ask } from "./api.js";
import { debounced, h } from "./dom.js";
import { body, queryBox } from "./search.js";
import { change, current, scope } from "./state.js";
import { fixed, t } from "./texts.js";

const CHOICES = {
  idf: ["", "epsilon", "lucene", "zero", "plus", "tfidf", "plain"],
  feedback: ["", "rm3", "rocchio"],
};
const NUMBERS = { bigram_weight: "bigramWeight", word_bigram_weight: "wordBigramWeight", latin_weight: "latinWeight" };
const DEFAULT_SECOND = { idf: "lucene" };

/** Show the view in an element; return what ends it. */
export function showCompare(main, { report }) {
  const results = h("div", { class: "two", id: "compared" });
  const told = h("p", { class: "told quiet", role: "status" });
  const box = queryBox();
  const sides = { first: read("a", {}), second: read("b", DEFAULT_SECOND) };
  let running = new AbortController();
  const later = debounced(150, compare);
  box.addEventListener("input", () => {
    change({ q: box.value });
    later();
  });

  async function compare() {
    running.abort();
    running = new AbortController();
    const state = current();
    if (!state.q.trim()) {
      told.textContent = "";
      results.replaceChildren(h("p", { class: "empty" }, t("start")));
      return;
    }
    const asked = { text: state.q, k: Number(state.k), max_text: 300, ...scope(state), ...sides };
    try {
      const answer = await ask("compare", asked, running.signal);
      report();
      told.textContent = outcome(answer);
      const ranks = new Map(answer.ranks.map((rank) => [key(rank), rank]));
      results.replaceChildren(column("first", "second", answer, ranks), column("second", "first", answer, ranks));
    } catch (error) {
      if (error.name !== "AbortError") report(error);
    }
  }

  const panel = (side, name) => h("fieldset", {}, h("legend", {}, t(side)), fields(side, sides[side], (options) => {
    sides[side] = options;
    change({ [name]: JSON.stringify(options) });
    compare();
  }));
  main.replaceChildren(
    h("form", { class: "query", role: "search", onsubmit: (event) => (event.preventDefault(), compare()) }, box),
    h("div", { class: "two" }, panel("first", "a"), panel("second", "b")),
    told,
    results,
  );
  compare();
  return () => running.abort();
}

/** Return the options of a side in the address, if there are some. */
function read(name, otherwise) {
  try {
    const options = JSON.parse(current()[name]);
    return options?.constructor === Object ? options : otherwise;
  } catch {
    return otherwise;
  }
}

function outcome({ ranks, unmoved }) {
  if (!ranks.length) return t("nothing");
  return unmoved === ranks.length ? t("unmoved") : "";
}

function fields(side, options, changed) {
  const set = (name, value) => {
    const next = { ...options, [name]: value };
    if (value === "" || value === false) delete next[name];
    options = next;
    changed(next);
  };
  const label = (name, text, field) => h("label", {}, text, " ", Object.assign(field, { id: `${side}-${name}` }));
  const choice = (name, values) => label(name, t(name), h("select", { onchange: (event) => set(name, event.target.value) },
    values.map((value) => h("option", { value, selected: (options[name] ?? "") === value }, value || t("default")))));
  const number = (name, text) => label(name, t(text), h("input", { type: "number", min: "0", max: "10", step: "0.05", value: options[name] ?? "", placeholder: t("default"),
    onchange: (event) => set(name, event.target.value === "" ? "" : Number(event.target.value)) }));
  return [
    ...Object.entries(CHOICES).map(([name, values]) => choice(name, values)),
    ...Object.entries(NUMBERS).map(([name, text]) => number(name, text)),
    label("min_should_match", t("mustMatch"), h("input", { type: "text", size: "4", value: options.min_should_match ?? "", placeholder: "75%",
      onchange: (event) => set("min_should_match", event.target.value.trim()) })),
    label("fuzzy", t("fuzzy"), h("input", { type: "checkbox", checked: options.fuzzy === true, onchange: (event) => set("fuzzy", event.target.checked) })),
  ];
}

function key({ id, namespace }) {
  return `${namespace}\u0000${id}`;
}

function column(side, other, answer, ranks) {
  return h("ol", { class: "column", "aria-label": t(side) }, answer[side].map((hit, at) => {
    const rank = ranks.get(key(hit))?.[other] ?? null;
    return h("li", { "data-id": hit.id },
      h("p", { class: "head" }, h("span", { class: "rank" }, at + 1), moved(at + 1, rank, side), h("span", { class: "score" }, fixed(hit.score)), h("span", { class: "id" }, hit.id)),
      h("p", { class: "text" }, body(hit)));
  }));
}

/** Say how far a hit is from its place on the other side. */
function moved(rank, elsewhere, side) {
  if (elsewhere === null) return h("span", { class: "moved new" }, t("new"));
  const places = elsewhere - rank;
  if (!places) return h("span", { class: "moved same", title: t("same") }, "=");
  return h("span", { class: places > 0 ? "moved up" : "moved down", title: t("moved", { n: elsewhere }) }, `${places > 0 ? "↑" : "↓"} ${Math.abs(places)}`);
}
