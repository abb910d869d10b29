// Why a search does not find a chunk or a document that one expected.

import { ask, listSources, readDocument } from "./api.js";
import { h } from "./dom.js";
import { diagnosisText, text } from "./messages.js";
import { t } from "./texts.js";

const OFFERED = 1000; // documents

/** Return a button that says why the search does not find a chunk. */
export function whyNot(asked, chunk) {
  const answer = h("span", { class: "answer", role: "status" });
  return [h("button", { type: "button", onclick: () => tell(answer, () => whyNotChunk(asked, chunk)) }, t("whyNot")), answer];
}

/** Let people ask for a document or a chunk that is not among the hits. */
export function missing(asked, names) {
  const answer = h("p", { class: "answer", role: "status" });
  const sources = h("datalist", { id: "sources" });
  const field = h("input", { type: "text", list: sources.id, "aria-label": t("expected"), placeholder: t("expected") });
  const find = (event) => {
    event.preventDefault();
    if (field.value.trim()) tell(answer, () => whyNotExpected(asked, field.value.trim(), names));
  };
  const offer = async (event) => {
    if (!event.target.open || sources.children.length) return;
    const { sources: found } = await listSources({ all_namespaces: true }, 0, OFFERED).catch(() => ({ sources: [] }));
    sources.replaceChildren(...found.map(({ source }) => h("option", { value: source })));
  };
  return h("details", { class: "missing", ontoggle: offer }, h("summary", {}, t("missing")),
    h("form", { onsubmit: find }, h("p", { class: "quiet" }, t("missingHelp")), field, sources, " ", h("button", {}, t("ask"))), answer);
}

async function tell(answer, find) {
  answer.textContent = "";
  answer.textContent = await find().catch(text);
}

async function whyNotChunk(asked, { id, namespace }) {
  const { diagnosis } = await ask("why", { ...asked, id, chunk_namespace: namespace });
  return inWords(diagnosis);
}

function inWords(diagnosis) {
  return diagnosis.reasons.length ? diagnosisText(diagnosis) : t("rank", { n: diagnosis.rank });
}

/** Say why a chunk with this id is missing or, if there is none, the likeliest one of a document. */
async function whyNotExpected(asked, expected, names) {
  const { diagnosis } = await ask("why", { ...asked, id: expected });
  if (diagnosis.reasons[0]?.code !== "no_chunk") return inWords(diagnosis);
  const { hits } = await ask("search", { ...asked, group: null, filter: { source: expected }, k: 1, max_text: 1 });
  return whyNotChunk(asked, hits[0] ?? await firstChunk(expected, asked.namespace === undefined ? names : [asked.namespace]));
}

/** Return the first chunk of a document, in the first namespace that has it. */
async function firstChunk(source, [namespace = "", ...others]) {
  try {
    const { chunks } = await readDocument(source, namespace, 1);
    return chunks[0];
  } catch (error) {
    if (error.code !== "not_found" || !others.length) throw error;
    return firstChunk(source, others);
  }
}
