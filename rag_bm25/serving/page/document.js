// All chunks of one document, in its order.

import { readDocument } from "./api.js";
import { h } from "./dom.js";
import { message } from "./messages.js";
import { t } from "./texts.js";

const AT_ONCE = 50;

/** Return what unfolds to the chunks of a document; they are read when it is opened. */
export function showDocument({ source, namespace, hits }) {
  const found = new Set(hits.map((hit) => hit.id));
  const list = h("ol", { class: "column" });
  const more = h("button", { type: "button", hidden: true, onclick: read });
  const problem = h("div", {});

  async function read() {
    more.disabled = true; // one page at a time
    try {
      const { chunks, total } = await readDocument(source, namespace, list.children.length, AT_ONCE);
      list.append(...chunks.map((chunk) => item(chunk, found.has(chunk.id))));
      more.hidden = list.children.length >= total || !chunks.length;
      more.textContent = t("more", { shown: list.children.length, total });
      problem.replaceChildren();
    } catch (error) {
      problem.replaceChildren(message(error));
    }
    more.disabled = false;
  }

  const open = (event) => event.target.open && !list.children.length && read();
  return h("details", { class: "whole", ontoggle: open }, h("summary", {}, t("allChunks")), list, more, problem);
}

function item({ id, text }, isHit) {
  return h("li", { "data-id": id, "aria-current": isHit ? "true" : null }, h("p", { class: "id" }, id), h("p", { class: "text" }, text));
}
