// The df and IDF of the query's words, and the terms that most chunks have.

import { ask } from "./api.js";
import { bar, debounced, h } from "./dom.js";
import { queryBox } from "./search.js";
import { current, scope, type } from "./state.js";
import { format, t } from "./texts.js";

const TOP = 30;

/** Show the view in an element; return what ends it. */
export function showTerms(main, { report }) {
  const ofQuery = h("section", { id: "query-terms" });
  const listed = h("section", { id: "top-terms" });
  const box = queryBox();
  const prefix = h("input", { type: "search", id: "prefix", value: current().prefix, "aria-label": t("prefix"), placeholder: t("prefix"), autocapitalize: "off", spellcheck: "false" });
  let running = new AbortController();

  async function look() {
    running.abort();
    running = new AbortController();
    const state = current();
    try {
      const { terms } = state.q.trim() ? await ask("statistics/terms", { terms: state.q, ...scope(state) }, running.signal) : { terms: [] };
      ofQuery.replaceChildren(...(terms.length ? [table(terms)] : []));
      const top = await ask("statistics/top-terms", { prefix: state.prefix, k: TOP, ...scope(state) }, running.signal);
      report();
      listed.replaceChildren(top.terms.length ? table(top.terms) : h("p", { class: "empty" }, t("nothing")));
    } catch (error) {
      if (error.name !== "AbortError") report(error);
    }
  }
  const later = debounced(150, look);
  for (const [field, name] of [[box, "q"], [prefix, "prefix"]]) {
    field.addEventListener("input", () => {
      type({ [name]: field.value });
      later();
    });
  }
  main.replaceChildren(
    h("form", { class: "query", role: "search", onsubmit: (event) => (event.preventDefault(), look()) }, box),
    h("h2", {}, t("ofQuery")), ofQuery,
    h("h2", {}, t("topTerms")), h("p", {}, prefix), listed,
  );
  look();
  return () => running.abort();
}

function table(terms) {
  const highest = Math.max(...terms.map((term) => term.idf), 1e-9);
  const row = ({ term, df, idf, num_chunks: n }) => h("tr", {},
    h("th", { scope: "row" }, term),
    h("td", { class: "wide" }, bar(n ? df / n : 0, t("numChunks", { df, n })), h("span", {}, format(df))),
    h("td", { class: "wide" }, bar(idf / highest, format(idf)), h("span", {}, format(idf))));
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": t("terms") }, h("table", {},
    h("thead", {}, h("tr", {}, ["term", "df", "idf"].map((name) => h("th", { scope: "col", class: name === "term" ? null : "wide" }, t(name))))),
    h("tbody", {}, terms.map(row))));
}
