// Search as you type: hits by document, why they score as they do, and why others are missing.

import { ApiError, ask, readChunk } from "./api.js";
import { completing } from "./complete.js";
import { showDocument, showDocuments } from "./document.js";
import { bar, debounced, h, marked, marksOf, stylesOf } from "./dom.js";
import { message, reasonText } from "./messages.js";
import { missing, whyNot } from "./missing.js";
import { address, change, current, go, place, settle, type } from "./state.js";
import { fixed, format, t } from "./texts.js";

const WAIT = 50; // milliseconds after a keystroke
const HITS_OF_A_DOCUMENT = 3;
const SHOWN = 600; // characters of a hit without highlights
const MAX_COUNTED = 20_000; // chunks, which are read to list the documents, unless one asks for them
const DIGITS = 4; // of a contribution and of its weights
const SEARCHING = 300; // milliseconds until one says that an answer is under way
const PAUSE = 1000; // milliseconds after a keystroke: a question has been asked, which is a step of the history, and is read out
const MOST = 1000; // hits that can be asked for at once, and left out
const WORDS = 12; // whose df are shown
const CONDITION = /(^|\s)\+|"/; // words and phrases that every hit must have
const EVERY_MARK = { max_fragments: 1000 };

/** Show the view in an element; return what ends it. */
export function showSearch(main, { names, numChunks, report }) {
  const results = h("section", { id: "results", "aria-live": "off" });
  const told = h("p", { class: "told quiet" });
  const words = h("p", { class: "words quiet" });
  const status = h("p", { class: "unseen", role: "status" });
  const box = queryBox();
  const later = debounced(WAIT, search);
  const pause = debounced(PAUSE, () => {
    settle();
    status.textContent = told.textContent;
  });
  box.addEventListener("input", (event) => {
    if (event.isComposing) return; // an input method has not made its characters yet
    type({ q: box.value });
    later();
    pause();
  });
  box.addEventListener("compositionend", () => box.dispatchEvent(new Event("input")));
  const documents = {}; // by namespace
  let running = new AbortController();

  async function search() {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    const state = current();
    results.setAttribute("aria-busy", "true");
    if (!state.q.trim()) {
      report();
      results.removeAttribute("aria-busy");
      told.textContent = words.textContent = "";
      results.replaceChildren(h("p", { class: "empty" }, t("start")), h("p", { class: "quiet" }, t("keys"), h("span", { class: "slash" }, t("slash"))),
        ...(documents[state.ns] ??= listed(names, state.ns, numChunks)));
      return;
    }
    const asked = { query: state.q, k: Number(state.k), syntax: state.syntax === "1", ...place(state) };
    const grouped = state.group === "1" ? { group: { key: "source", size: HITS_OF_A_DOCUMENT } } : {};
    const began = performance.now();
    const slow = setTimeout(() => {
      told.textContent = t("searching");
      words.textContent = "";
    }, SEARCHING);
    try {
      const find = () => ask("search", { ...asked, ...grouped, highlight: true, max_text: SHOWN }, signal);
      let found = await find();
      const completed = found.suggestion?.startsWith(asked.query) ? t("completed", { text: found.suggestion }) : "";
      if (completed) {
        asked.query = found.suggestion;
        found = await find();
      }
      const taken = performance.now() - began;
      const wanted = { ...asked, ...grouped };
      const shown = found.hits.length ? pages(found.hits, wanted) : [await nothing(asked, signal)];
      clearTimeout(slow);
      report();
      told.textContent = [counted(found.hits, wanted), t("time", { ms: Math.round(taken) }), completed].filter(Boolean).join(" · ");
      results.replaceChildren(...shown, missing(wanted, names));
      results.dataset.milliseconds = taken.toFixed(1);
      results.dataset.query = state.q;
      results.removeAttribute("aria-busy");
      reveal(results, state);
      const counts = await frequencies(asked, signal).catch(() => []); // hits without them are hits
      if (!signal.aborted) words.replaceChildren(...counts);
    } catch (error) {
      if (signal.aborted) return; // another question has been asked
      told.textContent = words.textContent = "";
      results.replaceChildren(...(error instanceof ApiError ? [h("button", { type: "button", onclick: search }, t("retry"))] : []));
      results.removeAttribute("aria-busy");
      report(error);
    } finally {
      clearTimeout(slow);
    }
  }

  main.replaceChildren(
    h("form", { class: "query", role: "search", onsubmit: (event) => (event.preventDefault(), settle(), search()) },
      completing(box, () => place(current())), options(names, search)),
    told,
    words,
    status,
    results,
  );
  const keys = (event) => move(event, box, results);
  document.addEventListener("keydown", keys);
  settle();
  search();
  box.focus({ preventScroll: true });
  return () => {
    running.abort();
    document.removeEventListener("keydown", keys);
  };
}

/** Return the field of the query, filled from the address. */
export function queryBox() {
  const box = h("input", {
    type: "search", id: "query", name: "q", value: current().q, placeholder: t("placeholder"), "aria-label": t("query"),
    autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "search",
  });
  box.setSelectionRange(box.value.length, box.value.length); // typing goes on where the words end
  return box;
}

/** Return the documents of each searched namespace; those of a large index, or of several, are read when one asks. */
function listed(names, ns, numChunks) {
  const searched = ns === "*" ? names : [ns];
  const open = searched.length === 1 && numChunks <= MAX_COUNTED;
  return searched.map((name) => showDocuments(name, open, (source) => go({ source })));
}

/** Return the hits of a page, and what adds the next one. */
function pages(hits, asked) {
  const size = asked.k; // `asked` grows with the pages: what is not on them is missing
  const most = Math.max(...hits.map((hit) => hit.score));
  const more = h("button", { type: "button", class: "next", onclick: next }, t("next"));
  let rank = hits.length;
  more.hidden = isLast(hits, asked);

  async function next() {
    more.disabled = true;
    try {
      const { hits: found } = await ask("search", { ...asked, k: size, offset: asked.k, highlight: true, max_text: SHOWN });
      asked.k += size;
      more.before(...groups(found, asked, most, rank));
      rank += found.length;
      more.hidden = isLast(found, { ...asked, k: size }) || asked.k + size > MOST;
    } catch (error) {
      more.before(message(error));
    }
    more.disabled = false;
  }
  return [...groups(hits, asked, most, 0), more];
}

/** Return whether there are no more hits, or groups of them, than these. */
function isLast(hits, { k, group }) {
  return (group ? new Set(hits.map(groupOf)).size : hits.length) < k;
}

function groupOf(hit) {
  return hasSource(hit) ? `source ${hit.metadata.source}` : `id ${hit.namespace} ${hit.id}`;
}

/** Say in how many chunks each word is, and how many chunks meet the conditions. */
async function frequencies({ k, ...asked }, signal) {
  const { query, syntax, ...where } = asked;
  const { terms } = await ask("statistics/terms", { terms: query, ...where }, signal);
  if (!terms.length) return [];
  const listed = terms.slice(0, WORDS).map(({ term, df }) => h("span", { class: "word" }, `${typed(term, query)} ${format(df)}`));
  const met = [t("ofChunks", { n: terms[0].num_chunks })];
  if (syntax && CONDITION.test(query)) {
    const { count } = await ask("search", { ...asked, k: MOST, max_text: 1 }, signal);
    met.push(t(count < MOST ? "met" : "metOrMore", { n: count }));
  }
  return [t("inChunks"), " ", ...listed, " ", met.join(" · ")];
}

/** Return the word of a query that a term may be the stem of, as it was typed; Chinese characters have no stems. */
function typed(term, query) {
  const words = query.match(/(?:(?!\p{Script=Han})[\p{L}\p{N}])+/gu) ?? [];
  return words.find((word) => word.toLowerCase().startsWith(term.slice(0, Math.max(term.length - 1, 2)))) ?? term;
}

/** Show the hit and the panel that the address names. */
function reveal(results, { hit: id, panel }) {
  const hit = id && [...results.querySelectorAll(".hit")].find((each) => each.dataset.id === id);
  if (!hit) return;
  hit.scrollIntoView({ block: "center" });
  hit.focus({ preventScroll: true });
  hit.querySelector(`[data-panel="${CSS.escape(panel)}"][aria-expanded=false]`)?.click();
}

/** Count hits, and the documents that they are of; those of a page are the first of more. */
function counted(hits, asked) {
  const documents = new Set(hits.filter(hasSource).map(({ namespace, metadata }) => `${namespace} ${metadata.source}`)).size;
  const isAll = isLast(hits, asked) && !isCut(hits, asked);
  const found = hits.length === 1 ? t("hit") : t(isAll ? "hits" : "firstHits", { n: hits.length });
  return documents ? t("in", { hits: found, documents: t(documents === 1 ? "document" : "numDocuments", { n: documents }) }) : found;
}

/** Return whether a document has as many hits as it may have. */
function isCut(hits, { group }) {
  return group && hits.some((hit) => hits.filter((other) => groupOf(other) === groupOf(hit)).length === group.size);
}

function hasSource(hit) {
  return typeof hit.metadata.source === "string";
}

function options(names, search) {
  const state = current();
  const set = (name, value) => {
    change({ [name]: value, hit: "", panel: "" });
    search();
  };
  const wanted = h("span", {}, t(state.group === "1" ? "documents" : "hitsWanted"));
  const group = (event) => {
    wanted.textContent = t(event.target.checked ? "documents" : "hitsWanted");
    set("group", event.target.checked ? "1" : "0");
  };
  const sizes = [...new Set(["5", "10", "20", "50", state.k])].map((k) => h("option", { value: k, selected: state.k === k }, k));
  return h("div", { class: "options" },
    namespaces(names, state, (ns) => set("ns", ns)),
    h("label", {}, wanted, " ", h("select", { id: "k", onchange: (event) => set("k", event.target.value) }, sizes)),
    h("label", {}, h("input", { type: "checkbox", id: "group", checked: state.group === "1", onchange: group }), t("grouped")),
    h("label", { title: t("syntaxHelp") }, h("input", { type: "checkbox", id: "syntax", checked: state.syntax === "1", onchange: (event) => set("syntax", event.target.checked ? "1" : "") }), t("syntax")),
    state.source && h("button", { type: "button", class: "chosen", "aria-label": t("everywhere", { source: state.source }), onclick: () => go({ source: "" }) }, `${state.source} ×`),
  );
}

/** Return the choice of a namespace; nothing if there is only one. */
export function namespaces(names, state, choose) {
  const isKnown = state.ns === "*" || names.includes(state.ns);
  if (names.length < 2 && isKnown) return null;
  const choices = [["*", t("allNamespaces")], ...names.map((name) => [name, name || t("defaultNamespace")])];
  if (!isKnown) choices.push([state.ns, t("noNamespace", { name: state.ns })]);
  return h("label", {}, t("namespace"), " ",
    h("select", { id: "namespace", onchange: (event) => choose(event.target.value) },
      choices.map(([value, text]) => h("option", { value, selected: state.ns === value }, text))));
}

/** Put the hits of one document together; they follow each other. */
function groups(hits, asked, most, before) {
  const byDocument = [];
  for (const hit of hits) {
    const source = hit.metadata.source ?? hit.id;
    const last = byDocument.at(-1);
    if (last?.source === source && last.namespace === hit.namespace) last.hits.push(hit);
    else byDocument.push({ source, namespace: hit.namespace, hits: [hit] });
  }
  let rank = before;
  return byDocument.map((group) =>
    h("section", { class: "document" },
      h("h2", {}, h("span", { class: "title" }, [group.hits[0].metadata.title ?? group.source].flat().join(" ")), h("span", { class: "quiet path" }, pathOf(group)), linkOf(group)),
      group.hits.map((hit) => showHit(hit, ++rank, most, asked)),
      hasSource(group.hits[0]) && h("div", { class: "beside" },
        showDocument(group, t("allChunks"), (chunk) => (group.hits.some((hit) => hit.id === chunk.id) ? "hit" : whyNot(asked, chunk)), (chunks) => marksIn(chunks, group.namespace, asked)),
        current().source !== group.source && h("button", { type: "button", onclick: () => go({ source: group.source }) }, t("searchIn")))));
}

function pathOf({ source, namespace, hits }) {
  const named = hits[0].metadata.title ? source : "";
  return [namespace, named].filter(Boolean).join(" · ");
}

/** Return a link to the source, if that has an address. */
function linkOf({ source, hits }) {
  const link = [hits[0].metadata.url, source].find((each) => /^https?:\/\//.test(each));
  return link ? h("a", { class: "path", href: link, rel: "noreferrer", target: "_blank" }, t("open")) : null;
}

/** Return the highlights of chunks by their ids. */
async function marksIn(chunks, namespace, { query, syntax }) {
  const ids = chunks.map((chunk) => chunk.id);
  const { hits } = await ask("search", { query, syntax, namespace, filter: { $id: { $in: ids } }, k: ids.length, highlight: EVERY_MARK, max_text: 1 });
  return Object.fromEntries(hits.map((hit) => [hit.id, hit.highlights]));
}

function showHit(hit, rank, most, asked) {
  const detail = h("div", { class: "detail", hidden: true });
  const button = (name, show) => {
    const pressed = h("button", { type: "button", "aria-expanded": "false", "data-panel": name }, t(name));
    pressed.addEventListener("click", async () => {
      const opens = pressed.getAttribute("aria-expanded") === "false";
      for (const other of pressed.parentElement.querySelectorAll("[aria-expanded]")) other.setAttribute("aria-expanded", "false");
      detail.hidden = !opens;
      pressed.setAttribute("aria-expanded", String(opens));
      change({ hit: hit.id, panel: opens ? name : "" });
      detail.replaceChildren();
      const shown = opens && (await show().catch((error) => message(error)));
      if (pressed.getAttribute("aria-expanded") === "true") detail.replaceChildren(shown); // no other panel was asked for since
    });
    return pressed;
  };
  const headings = [hit.metadata.headings ?? []].flat().filter((heading, at, all) => heading !== hit.metadata.title && all.indexOf(heading) === at);
  return h("article", { class: "hit", tabindex: "-1", "data-id": hit.id },
    h("p", { class: "head" },
      h("span", { class: "rank" }, rank),
      bar(hit.score / most, `${t("score")} ${format(hit.score)}`),
      h("span", { class: "score" }, fixed(hit.score)),
      h("span", { class: "id" }, hit.id),
      h("span", { class: "quiet" }, headings.join(" › ")),
      h("span", { class: "quiet" }, placeOf(hit)),
    ),
    h("p", { class: "text" }, body(hit)),
    h("p", { class: "more" }, button("why", () => explain(hit, asked)), button("context", () => context(hit, asked)), button("metadata", async () => metadata(hit)), copying(hit),
      h("a", { href: address({ hit: hit.id, panel: "" }) }, t("link"))),
    detail,
  );
}

/** Say on which page a hit is, of which date, and how likely it answers. */
function placeOf({ metadata: { page, date }, confidence }) {
  const answers = confidence === undefined ? "" : t("confidence", { n: Math.round(100 * confidence) });
  return [page === undefined ? "" : t("page", { n: page }), date, answers].filter(Boolean).join(" · ");
}

/** Return all metadata of a hit. */
function metadata(hit) {
  const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const entries = Object.entries({ ...(hit.namespace && { namespace: hit.namespace }), ...hit.metadata });
  return h("dl", { class: "metadata" }, entries.map(([name, value]) => [h("dt", {}, name), h("dd", {}, shown(value))]));
}

/** Return a button that copies the whole text of a hit, where the browser lets pages copy. */
function copying(hit) {
  if (!navigator.clipboard) return null;
  const copy = async (event) => {
    const { text } = hit.characters ? await readChunk(hit.id, hit.namespace) : hit;
    await navigator.clipboard.writeText(text);
    event.target.textContent = t("copied");
  };
  return h("button", { type: "button", onclick: (event) => copy(event).catch((error) => event.target.after(message(error))) }, t("copy"));
}

/** Return the best sentences of a hit in the order of the text, or its beginning. */
function body(hit) {
  const fragments = [...(hit.highlights ?? [])].sort((a, b) => a.start - b.start);
  const styles = stylesOf(hit.text); // of the whole, since a part may be within code; beyond where it is cut, a part has its own
  if (!fragments.length) return [...marked(hit.text), hit.characters ? " …" : ""];
  return fragments.flatMap((fragment, at) => [
    at > 0 || fragment.start > 0 ? "… " : "",
    ...marked(fragment.text, fragment.marks, fragment.start, fragment.end <= styles.length ? styles.slice(fragment.start, fragment.end) : undefined),
    " ",
  ]);
}

/** Explain a score by a row for each term, which add up to it. */
async function explain(hit, { group, ...asked }) {
  const { explanation } = await ask("explain", { ...asked, id: hit.id, chunk_namespace: hit.namespace, part: hit.part });
  const found = explanation.terms.filter((term) => term.contribution > 0);
  const absent = explanation.terms.filter((term) => term.contribution <= 0 && term.channel === "word").map((term) => term.term);
  const most = Math.max(...found.map((term) => term.contribution));
  const fields = found.some(occurrences) ? ["fields"] : [];
  const heads = ["term", "contribution", "queryWeight", "chunkWeight", "idf", "factors", "tf", "df", ...fields];
  const row = (term) => h("tr", { class: term.channel === "word" ? null : "bigram" },
    h("th", { scope: "row" }, term.term, term.source ? h("span", { class: "quiet" }, ` ${term.source}`) : null),
    h("td", { class: "wide" }, bar(term.contribution / most, fixed(term.contribution, DIGITS)), h("span", {}, fixed(term.contribution, DIGITS))),
    ...[term.query_weight, term.weight, term.idf].map((value) => h("td", {}, fixed(value, DIGITS))),
    ...[factors(term), format(term.tf), format(term.df), ...fields.map(() => occurrences(term))].map((value) => h("td", {}, value)));
  return h("div", { class: "explanation" },
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": t("why") }, h("table", {},
      h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col", class: name === "contribution" ? "wide" : null }, t(name))))),
      h("tbody", {}, found.map(row)),
      h("tfoot", {}, sums(explanation)))),
    h("p", { class: "quiet" }, [
      t("products"),
      t("length", { n: explanation.length, chunks: explanation.num_chunks }),
      absent.length ? t("noTerm", { terms: absent.join(", ") }) : "",
      explanation.stop_words.length ? t("stopWords", { words: explanation.stop_words.join(", ") }) : "",
      explanation.reason,
    ].filter(Boolean).join(" · ")));
}

/** Return what the query weight is, beside the IDF. */
function factors(term) {
  return Object.entries(term.factors).filter(([, value]) => value !== 1).map(([name, value]) => `× ${format(value, 6)} ${name}`).join(" ");
}

/** Return how often each field of a chunk has a term, unless only the text has it. */
function occurrences({ fields }) {
  if (Object.keys(fields).every((name) => name === "text")) return "";
  return Object.entries(fields).map(([name, count]) => `${name} ${format(count)}`).join(", ");
}

/** Return the rows below the terms: their sum, the factors of boosts, and the score. */
function sums({ bm25_score: sum, factors: boosts, value }) {
  const row = (name, number) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "wide" }, number));
  const before = boosts.length ? [row(t("sum"), fixed(sum, DIGITS))] : [];
  return [...before, ...boosts.map((boost) => row(boost.description, `× ${fixed(boost.value, DIGITS)}`)), row(t("score"), fixed(value, DIGITS))];
}

async function context(hit, { query, syntax }) {
  const chunk = await readChunk(hit.id, hit.namespace);
  const { text, start, end } = chunk.context ?? { text: chunk.text, start: 0, end: 0 };
  const { highlights } = await ask("highlight", { query, syntax, text, namespace: hit.namespace, highlight: EVERY_MARK });
  const characters = Array.from(text);
  const piece = (from, to) => {
    const within = marksOf(highlights).map(([a, b]) => [Math.max(a, from), Math.min(b, to)]).filter(([a, b]) => a < b);
    return marked(characters.slice(from, to).join(""), within, from);
  };
  return h("div", { class: "context" }, piece(0, start), h("b", {}, piece(start, end)), piece(end, characters.length));
}

/** Say why there is no hit, with the spelling that may be meant. */
async function nothing(asked, signal) {
  const { diagnosis } = await ask("why", asked, signal);
  const again = diagnosis.suggestion && h("button", { type: "button", class: "suggestion", onclick: () => go({ q: diagnosis.suggestion }) }, t("didYouMean", { text: diagnosis.suggestion }));
  return h("div", { class: "empty" }, h("p", {}, t("nothing")), h("ul", {}, diagnosis.reasons.map((reason) => h("li", {}, reasonText(reason)))), again);
}

/** Move between the field and the hits by keys. */
function move(event, box, results) {
  const typing = event.target.matches?.("input, select, textarea") && event.target !== box;
  if (typing || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
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
