// Search as you type: hits by document, why they score as they do, and why others are missing.

import { ask, readChunk } from "./api.js";
import { showDocument } from "./document.js";
import { bar, debounced, h, marked } from "./dom.js";
import { message, text } from "./messages.js";
import { change, current, scope } from "./state.js";
import { fixed, format, t } from "./texts.js";

const WAIT = 50; // milliseconds after a keystroke
const HITS_OF_A_DOCUMENT = 3;
const SHOWN = 600; // characters of a hit without highlights

/** Show the view in an element; return what ends it. */
export function showSearch(main, { names, report }) {
  const results = h("section", { id: "results", "aria-live": "off" });
  const told = h("p", { class: "told quiet", role: "status" });
  const box = queryBox(() => search());
  const later = debounced(WAIT, search);
  box.addEventListener("input", () => {
    change({ q: box.value });
    later();
  });
  let running = new AbortController();

  async function search() {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    const state = current();
    if (!state.q.trim()) {
      report();
      told.textContent = "";
      results.replaceChildren(h("p", { class: "empty" }, t("start")), h("p", { class: "quiet" }, t("keys")));
      return;
    }
    const asked = { query: state.q, k: Number(state.k), syntax: state.syntax === "1", ...scope(state) };
    const grouped = state.group === "1" ? { group: { key: "source", size: HITS_OF_A_DOCUMENT } } : {};
    const began = performance.now();
    try {
      const find = () => ask("search", { ...asked, ...grouped, highlight: true, max_text: SHOWN }, signal);
      let found = await find();
      const completed = found.suggestion?.startsWith(asked.query) ? t("completed", { text: found.suggestion }) : "";
      if (completed) {
        asked.query = found.suggestion;
        found = await find();
      }
      const taken = performance.now() - began;
      report();
      const shown = found.hits.length ? groups(found.hits, asked) : [await nothing(asked, signal)];
      told.textContent = [count(found.hits.length), t("time", { ms: Math.round(taken) }), completed].filter(Boolean).join(" · ");
      results.replaceChildren(...shown, missing(asked));
      results.dataset.milliseconds = taken.toFixed(1);
      results.dataset.query = state.q;
    } catch (error) {
      if (error.name === "AbortError") return;
      told.textContent = "";
      report(error);
    }
  }

  main.replaceChildren(
    h("form", { class: "query", role: "search", onsubmit: (event) => (event.preventDefault(), search()) },
      box, options(names, search)),
    told,
    results,
  );
  const keys = (event) => move(event, box, results);
  document.addEventListener("keydown", keys);
  search();
  box.focus({ preventScroll: true });
  return () => {
    running.abort();
    document.removeEventListener("keydown", keys);
  };
}

/** Return the field of the query, filled from the address. */
export function queryBox() {
  return h("input", {
    type: "search", id: "query", name: "q", value: current().q, placeholder: t("placeholder"), "aria-label": t("query"),
    autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "search",
  });
}

function count(hits) {
  return hits === 1 ? t("hit") : t("hits", { n: hits });
}

function options(names, search) {
  const state = current();
  const set = (name, value) => {
    change({ [name]: value });
    search();
  };
  const sizes = [...new Set(["5", "10", "20", "50", state.k])].map((k) => h("option", { value: k, selected: state.k === k }, k));
  return h("div", { class: "options" },
    namespaces(names, state, (ns) => set("ns", ns)),
    h("label", {}, t("hitsWanted"), " ", h("select", { id: "k", onchange: (event) => set("k", event.target.value) }, sizes)),
    h("label", {}, h("input", { type: "checkbox", id: "group", checked: state.group === "1", onchange: (event) => set("group", event.target.checked ? "1" : "0") }), t("grouped")),
    h("label", { title: t("syntaxHelp") }, h("input", { type: "checkbox", id: "syntax", checked: state.syntax === "1", onchange: (event) => set("syntax", event.target.checked ? "1" : "") }), t("syntax")),
  );
}

/** Return the choice of a namespace; nothing if there is only one. */
export function namespaces(names, state, choose) {
  if (names.length < 2) return null;
  const choices = [["*", t("allNamespaces")], ...names.map((name) => [name, name || t("defaultNamespace")])];
  return h("label", {}, t("namespace"), " ",
    h("select", { id: "namespace", onchange: (event) => choose(event.target.value) },
      choices.map(([value, text]) => h("option", { value, selected: state.ns === value }, text))));
}

/** Put the hits of one document together; they follow each other. */
function groups(hits, asked) {
  const most = Math.max(...hits.map((hit) => hit.score));
  const byDocument = [];
  for (const hit of hits) {
    const source = hit.metadata.source ?? hit.id;
    const last = byDocument.at(-1);
    if (last?.source === source && last.namespace === hit.namespace) last.hits.push(hit);
    else byDocument.push({ source, namespace: hit.namespace, hits: [hit] });
  }
  let rank = 0;
  return byDocument.map((group) =>
    h("section", { class: "document" },
      h("h2", {}, group.hits[0].metadata.title ?? group.source, h("span", { class: "quiet path" }, place(group))),
      group.hits.map((hit) => showHit(hit, ++rank, most, asked)),
      group.hits[0].metadata.source === undefined ? null : showDocument(group)));
}

function place({ source, namespace, hits }) {
  const named = hits[0].metadata.title ? source : "";
  return [namespace, named].filter(Boolean).join(" · ");
}

function showHit(hit, rank, most, asked) {
  const detail = h("div", { class: "detail", hidden: true });
  const button = (name, show) => {
    const pressed = h("button", { type: "button", "aria-expanded": "false" }, t(name));
    pressed.addEventListener("click", async () => {
      const opens = pressed.getAttribute("aria-expanded") === "false";
      for (const other of pressed.parentElement.querySelectorAll("[aria-expanded]")) other.setAttribute("aria-expanded", "false");
      detail.hidden = !opens;
      pressed.setAttribute("aria-expanded", String(opens));
      if (opens) detail.replaceChildren(await show().catch((error) => message(error)));
    });
    return pressed;
  };
  const headings = (hit.metadata.headings ?? []).filter((heading, at, all) => heading !== hit.metadata.title && all.indexOf(heading) === at);
  return h("article", { class: "hit", tabindex: "-1", "data-id": hit.id },
    h("p", { class: "head" },
      h("span", { class: "rank" }, rank),
      bar(hit.score / most, `${t("score")} ${format(hit.score)}`),
      h("span", { class: "score" }, fixed(hit.score)),
      h("span", { class: "id" }, hit.id),
      h("span", { class: "quiet" }, headings.join(" › ")),
    ),
    h("p", { class: "text" }, body(hit)),
    h("p", { class: "more" }, button("why", () => explain(hit, asked)), button("context", () => context(hit))),
    detail,
  );
}

/** Return the best sentences of a hit in the order of the text, or its beginning. */
function body(hit) {
  const fragments = [...(hit.highlights ?? [])].sort((a, b) => a.start - b.start);
  if (!fragments.length) return [hit.text, hit.characters ? " …" : ""];
  return fragments.flatMap((fragment, at) => [
    at > 0 || fragment.start > 0 ? "… " : "",
    ...marked(fragment.text, fragment.marks, fragment.start),
    " ",
  ]);
}

/** Explain a score by a row for each term. */
async function explain(hit, asked) {
  const { explanation } = await ask("explain", { ...asked, id: hit.id, chunk_namespace: hit.namespace, part: hit.part });
  const found = explanation.terms.filter((term) => term.contribution > 0);
  const absent = explanation.terms.filter((term) => term.contribution <= 0 && term.channel === "word").map((term) => term.term);
  const most = Math.max(...found.map((term) => term.contribution));
  const heads = ["term", "contribution", "tf", "df", "idf", "factors", "weight"];
  const factors = (term) => Object.entries(term.factors).filter(([, value]) => value !== 1)
    .map(([name, value]) => `× ${format(value, 6)} ${name}`).join(" ");
  const row = (term) => h("tr", { class: term.channel === "word" ? null : "bigram" },
    h("th", { scope: "row" }, term.term, term.source ? h("span", { class: "quiet" }, ` ${term.source}`) : null),
    h("td", { class: "wide" }, bar(term.contribution / most, format(term.contribution)), h("span", {}, format(term.contribution))),
    ...[term.tf, term.df, term.idf, factors(term), term.weight].map((value) => h("td", {}, format(value))));
  return h("div", { class: "explanation" },
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col", class: name === "contribution" ? "wide" : null }, t(name))))),
      h("tbody", {}, found.map(row)))),
    h("p", { class: "quiet" }, [
      t("length", { n: explanation.length, chunks: explanation.num_chunks }),
      absent.length ? t("noTerm", { terms: absent.join(", ") }) : "",
      explanation.stop_words.length ? t("stopWords", { words: explanation.stop_words.join(", ") }) : "",
      explanation.reason,
    ].filter(Boolean).join(" · ")));
}

async function context(hit) {
  const chunk = await readChunk(hit.id, hit.namespace);
  const { text, start, end } = chunk.context ?? { text: chunk.text, start: 0, end: 0 };
  const characters = Array.from(text);
  const piece = (from, to) => characters.slice(from, to).join("");
  return h("div", { class: "context" }, piece(0, start), h("b", {}, piece(start, end)), piece(end));
}

/** Say why there is no hit, with the spelling that may be meant. */
async function nothing(asked, signal) {
  const { diagnosis } = await ask("why", asked, signal);
  const again = diagnosis.suggestion && h("button", { type: "button", class: "suggestion", onclick: () => {
    change({ q: diagnosis.suggestion });
    dispatchEvent(new HashChangeEvent("hashchange"));
  } }, t("didYouMean", { text: diagnosis.suggestion }));
  return h("div", { class: "empty" }, h("p", {}, t("nothing")), h("ul", {}, diagnosis.reasons.map((reason) => h("li", {}, reason.message))), again);
}

/** Let people ask why a chunk that they expected is missing. */
function missing(asked) {
  const answer = h("p", { role: "status" });
  const id = h("input", { type: "text", "aria-label": t("id"), placeholder: t("id") });
  const find = async (event) => {
    event.preventDefault();
    if (!id.value.trim()) return;
    try {
      const { diagnosis } = await ask("why", { ...asked, id: id.value.trim() });
      answer.textContent = diagnosis.reasons.length ? diagnosis.text : t("rank", { n: diagnosis.rank });
    } catch (error) {
      answer.textContent = text(error);
    }
  };
  return h("details", { class: "missing" }, h("summary", {}, t("missing")),
    h("form", { onsubmit: find }, h("p", { class: "quiet" }, t("missingHelp")), id, " ", h("button", {}, t("ask"))), answer);
}

/** Move between the field and the hits by keys. */
function move(event, box, results) {
  const typing = event.target.matches?.("input, select, textarea") && event.target !== box;
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const hits = [...results.querySelectorAll(".hit")];
  const at = hits.indexOf(document.activeElement.closest?.(".hit"));
  if (event.key === "/" && document.activeElement !== box) focus(event, box);
  else if (event.key === "ArrowDown" && hits.length) focus(event, hits[Math.min(at + 1, hits.length - 1)]);
  else if (event.key === "ArrowUp" && at >= 0) focus(event, at ? hits[at - 1] : box);
  else if (event.key === "Enter" && document.activeElement === hits[at]) focus(event, hits[at].querySelector("button"), true);
  else if (event.key === "Escape" && document.activeElement !== box) focus(event, box);
}

function focus(event, element, press = false) {
  event.preventDefault();
  if (press) element.click();
  else element.focus();
}
