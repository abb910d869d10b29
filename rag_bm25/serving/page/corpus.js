// The index itself: its figures, the lengths of its chunks, and what is being ingested.

import { ask } from "./api.js";
import { bar, h } from "./dom.js";
import { histogram } from "./plots.js";
import { format, t } from "./texts.js";

const EVERY = 2000; // milliseconds
const HEALTHY = [0.8, 4]; // of chunk_size over the mean length, as docs/tuning.md measured it

/** Show the view in an element; return what ends it. */
export function showCorpus(main, { report }) {
  const figures = h("dl", { class: "figures" });
  const plot = h("figure", {});
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
      const lengths = await ask("statistics/lengths", { bins: 40 }, signal);
      plot.replaceChildren(...lengthPlot(lengths, plot.clientWidth));
    } catch (error) {
      if (error.name !== "AbortError") report(error);
    }
  }
  main.replaceChildren(
    h("h2", {}, t("figures")), figures,
    h("h2", {}, t("lengths")), plot,
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

function lengthPlot({ unit, measured, num_chunks, counts, edges, drift }, width) {
  if (!measured) return [h("p", { class: "empty" }, t("nothing"))];
  const healthy = drift.ratio >= HEALTHY[0] && drift.ratio <= HEALTHY[1];
  const advice = t(healthy ? "healthy" : "unhealthy", { n: String(drift.proposed) });
  const said = `${t("drift", { ratio: drift.ratio, k1: drift.effective_k1, b: drift.effective_b })} ${advice}`;
  const lines = [
    { at: drift.mean_length, text: t("mean", { n: Math.round(drift.mean_length) }) },
    { at: drift.chunk_size, text: t("chunkSize", { n: drift.chunk_size }) },
  ];
  return [
    histogram(counts, edges, lines, { x: unitName(unit), y: t("number") }, width),
    h("figcaption", {}, t("lengthsOf", { unit: unitName(unit), n: measured, all: num_chunks }), " ", h("span", { class: healthy ? null : "error" }, said)),
  ];
}

function job({ kind, state, progress: counts, seconds, source, reason }) {
  const progress = counts.at(-1);
  const share = progress?.total ? progress.done / progress.total : state === "done" ? 1 : 0;
  const done = progress?.done === 1 && !progress.total ? t("chunk") : progress ? t("chunks", { n: `${format(progress.done)}${progress.total ? ` / ${format(progress.total)}` : ""}` }) : "";
  return h("p", { class: "job" }, h("b", {}, t(kind)), " ", t(state), " ", bar(share, `${Math.round(share * 100)} %`), " ",
    h("span", { class: "quiet" }, [done, `${format(seconds, 1)} s`, source, reason].filter(Boolean).join(" · ")));
}
