// Documents: those of a namespace, and all chunks of one, in its order.

import { listSources, readDocument } from "./api.js";
import { h, marked, marksOf } from "./dom.js";
import { message } from "./messages.js";
import { t } from "./texts.js";

const AT_ONCE = 50;

/** Return what unfolds to a list, which is read a page at a time; `read` returns items of a place, where they begin, and how many there are. */
function unfolding(attributes, title, read, start = { offset: 0 }) {
  const list = h("ol", { class: "column" });
  const before = h("button", { type: "button", hidden: true, onclick: () => load({ offset: first - AT_ONCE }) }, t("before"));
  const more = h("button", { type: "button", hidden: true, onclick: () => load({ offset: first + list.children.length }) });
  const problem = h("div", {});
  const summary = h("summary", {}, title);
  let first = Infinity; // that is shown; pages begin at multiples of their size

  async function load(place) {
    if (more.disabled) return; // one page at a time
    more.disabled = true;
    try {
      const { items, total, named, offset = place.offset } = await read(place);
      if (offset < first) list.prepend(...items);
      else list.append(...items);
      first = Math.min(first, offset);
      if (named) summary.textContent = named;
      before.hidden = first === 0;
      more.hidden = first + list.children.length >= total || !items.length;
      more.textContent = t("more", { shown: list.children.length, total });
      problem.replaceChildren();
    } catch (error) {
      problem.replaceChildren(message(error));
    }
    more.disabled = false;
  }

  async function open(event) {
    if (!event.target.open || list.children.length) return;
    await load(start);
    if (start.around) list.querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
  }
  return h("details", { ...attributes, ontoggle: open }, summary, before, list, more, problem);
}

/** Return what unfolds to the chunks of a document; `beside` makes what stands beside the id of each, `mark` finds the marks in them. */
export function showDocument({ source, namespace, hits = [] }, title = t("allChunks"), beside = () => null, mark = () => ({})) {
  return unfolding({ class: "whole" }, title, async (place) => {
    const { chunks, total, offset } = await readDocument(source, namespace, AT_ONCE, place);
    const highlights = await mark(chunks);
    return { total, offset, items: chunks.map((chunk) => item(chunk, beside(chunk), marksOf(highlights[chunk.id]))) };
  }, hits.length ? { around: hits[0].id } : undefined);
}

function item({ id, text }, beside, marks) {
  return h("li", { "data-id": id, "aria-current": beside === "hit" ? "true" : null },
    h("p", { class: "head" }, h("span", { class: "id" }, id), beside === "hit" ? null : beside), h("p", { class: "text" }, marked(text, marks)));
}

/** Return what unfolds to the documents of a namespace; `choose` is called with the one to search in. */
export function showDocuments(namespace, open, choose) {
  const name = namespace ? `${namespace} · ` : "";
  return unfolding({ class: "documents", open }, name + t("documents"), async ({ offset }) => {
    const { sources, total } = await listSources({ namespace }, offset, AT_ONCE);
    const items = sources.map(({ source, chunks }) => h("li", { class: "beside" },
      showDocument({ source, namespace }, [source, h("span", { class: "quiet" }, ` ${t(chunks === 1 ? "chunk" : "chunks", { n: chunks })}`)]),
      h("button", { type: "button", onclick: () => choose(source) }, t("searchIn"))));
    return { items, total, named: name + t(total === 1 ? "document" : total ? "numDocuments" : "noDocuments", { n: total }) };
  });
}
