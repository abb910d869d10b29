// Documents: those of a namespace, and all chunks of one, in its order.

import { listSources, readDocument } from "./api.js";
import { h, marked } from "./dom.js";
import { message } from "./messages.js";
import { t } from "./texts.js";

const AT_ONCE = 50;

/** Return what unfolds to a list, which is read a page at a time; `read` returns items from an offset on, and how many there are. */
function unfolding(attributes, title, read) {
  const list = h("ol", { class: "column" });
  const more = h("button", { type: "button", hidden: true, onclick: next });
  const problem = h("div", {});
  const summary = h("summary", {}, title);

  async function next() {
    if (more.disabled) return; // one page at a time
    more.disabled = true;
    try {
      const { items, total, named } = await read(list.children.length);
      list.append(...items);
      if (named) summary.textContent = named;
      more.hidden = list.children.length >= total || !items.length;
      more.textContent = t("more", { shown: list.children.length, total });
      problem.replaceChildren();
    } catch (error) {
      problem.replaceChildren(message(error));
    }
    more.disabled = false;
  }

  const open = (event) => event.target.open && !list.children.length && next();
  return h("details", { ...attributes, ontoggle: open }, summary, list, more, problem);
}

/** Return what unfolds to the chunks of a document; `beside` makes what stands beside the id of each. */
export function showDocument({ source, namespace }, title = t("allChunks"), beside = () => null) {
  return unfolding({ class: "whole" }, title, async (offset) => {
    const { chunks, total } = await readDocument(source, namespace, offset, AT_ONCE);
    return { total, items: chunks.map((chunk) => item(chunk, beside(chunk))) };
  });
}

function item({ id, text }, beside) {
  return h("li", { "data-id": id, "aria-current": beside === "hit" ? "true" : null },
    h("p", { class: "head" }, h("span", { class: "id" }, id), beside === "hit" ? null : beside), h("p", { class: "text" }, marked(text)));
}

/** Return what unfolds to the documents of a namespace; `choose` is called with the one to search in. */
export function showDocuments(namespace, open, choose) {
  const name = namespace ? `${namespace} · ` : "";
  return unfolding({ class: "documents", open }, name + t("documents"), async (offset) => {
    const { sources, total } = await listSources({ namespace }, offset, AT_ONCE);
    const items = sources.map(({ source, chunks }) => h("li", { class: "beside" },
      showDocument({ source, namespace }, [source, h("span", { class: "quiet" }, ` ${t(chunks === 1 ? "chunk" : "chunks", { n: chunks })}`)]),
      h("button", { type: "button", onclick: () => choose(source) }, t("searchIn"))));
    return { items, total, named: name + t(total === 1 ? "document" : total ? "numDocuments" : "noDocuments", { n: total }) };
  });
}
