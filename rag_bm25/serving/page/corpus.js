// The index itself: its figures, and what is being ingested.

import { ask } from "./api.js";
import { bar, h } from "./dom.js";
import { format, t } from "./texts.js";

const EVERY = 2000; // milliseconds
const HEALTHY = [0.8, 4]; // of chunk_size over the mean length, as docs/tuning.md measured it

/** Show the view in an element; return what ends it. */
export function showCorpus(main, { report }) {
  const figures = h("dl", { class: "figures" });
  const distance = h("p", { class: "quiet" });
  const jobs = h("section", { id: "jobs" });
  const running = new AbortController();
  const { signal } = running;
  let known = -1;

  async function look() {
    try {
      const progress = await ask("progress", {}, signal);
      jobs.replaceChildren(...(progress.jobs.length ? progress.jobs.map(job) : [h("p", { class: "quiet" }, progress.writing ? t("writing") : t("noJobs"))]));
      const { index, problems } = await ask("statistics", {}, signal);
      report();
      if (index.num_chunks === known) return;
      known = index.num_chunks;
      figures.replaceChildren(...pairs(index, problems));
      distance.replaceChildren(drift(index));
    } catch (error) {
      if (error.name !== "AbortError") report(error);
    }
  }
  main.replaceChildren(
    h("h2", {}, t("figures")), figures, distance,
    h("h2", {}, t("ingestion")), jobs,
  );
  look();
  const timer = setInterval(look, EVERY);
  return () => {
    clearInterval(timer);
    running.abort();
  };
}

function pairs(index, problems) {
  const values = {
    N: index.num_chunks,
    numTerms: index.num_terms,
    meanLength: `${format(index.mean_length, 1)} (${unitName(index.length_unit)})`,
    weighting: `${index.weighting}, k1 ${index.k1}, b ${index.b}`,
    engine: index.storage ? index.storage.engine : "",
    namespaces: index.namespaces.map((name) => name || t("defaultNamespace")).join(", "),
    problems: problems.join("; "),
    answers: index.confidence_doubt ? t("unlike") : "",
  };
  return Object.entries(values).filter(([, value]) => value !== "").map(([name, value]) => h("div", {}, h("dt", {}, t(name)), h("dd", {}, format(value))));
}

/** Name a unit of lengths; "terms" is also the name of a view. */
function unitName(unit) {
  return t(unit === "terms" ? "terms_unit" : unit);
}

/** Tell how far the chunk size is from the mean length, and how to change it. */
function drift({ chunk_size, chunk_size_ratio: ratio, effective_k1: k1, effective_b: b, proposed_chunk_size: proposed }) {
  if (!proposed) return "";
  const healthy = ratio >= HEALTHY[0] && ratio <= HEALTHY[1];
  const advice = t(healthy ? "healthy" : "unhealthy", { n: String(proposed) });
  return h("span", { class: healthy ? null : "error" }, `${t("drift", { n: chunk_size, ratio, k1, b })} ${advice}`);
}

function job({ kind, state, progress: counts, seconds, source, reason }) {
  const progress = counts.at(-1);
  const share = progress?.total ? progress.done / progress.total : state === "done" ? 1 : 0;
  const done = progress?.done === 1 && !progress.total ? t("chunk") : progress ? t("chunks", { n: `${format(progress.done)}${progress.total ? ` / ${format(progress.total)}` : ""}` }) : "";
  return h("p", { class: "job" }, h("b", {}, t(kind)), " ", t(state), " ", bar(share, `${Math.round(share * 100)} %`), " ",
    h("span", { class: "quiet" }, [done, `${format(seconds, 1)} s`, source, reason].filter(Boolean).join(" · ")));
}
