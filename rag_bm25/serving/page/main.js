// The page: its views, its language and theme, and the state of the index.

import { ask, useToken } from "./api.js";
import { showCompare } from "./compare.js";
import { showCorpus } from "./corpus.js";
import { h } from "./dom.js";
import { message, showSearch } from "./search.js";
import { change, current } from "./state.js";
import { showTerms } from "./terms.js";
import { languageNow, switchLanguage, t } from "./texts.js";

const VIEWS = { search: showSearch, compare: showCompare, terms: showTerms, index: showCorpus };
const THEMES = ["auto", "light", "dark"];
const THEME = "rag_bm25.theme";
const STATUS_EVERY = 10_000; // milliseconds

const main = document.getElementById("main");
let names = [""];
let end = () => {};

function render() {
  end();
  const { view } = current();
  const shown = VIEWS[view] ? view : "search";
  document.documentElement.lang = languageNow() === "zh" ? "zh-CN" : "en";
  document.querySelector(".skip").textContent = t("skip");
  document.getElementById("tabs").setAttribute("aria-label", t("views"));
  document.getElementById("tabs").replaceChildren(...Object.keys(VIEWS).map((name) =>
    h("a", { href: `#view=${name}`, "aria-current": name === shown ? "page" : null, onclick: (event) => open(event, name) }, t(name))));
  document.getElementById("language").textContent = t("language");
  document.getElementById("theme").textContent = t("theme", { theme: t(theme()) });
  end = VIEWS[shown](main, { names, report });
}

function open(event, view) {
  event.preventDefault();
  change({ view }, { step: true });
  render();
}

/** Show an error above what there is; a server with a token is asked for it. */
function report(error) {
  if (error.code === "wrong_token") return askForToken();
  main.querySelector(".told, h2")?.before(message(error));
  for (const older of [...main.querySelectorAll(".error[role=alert]")].slice(0, -1)) older.remove();
}

function askForToken() {
  end();
  const field = h("input", { type: "password", autocomplete: "current-password", "aria-label": t("token"), placeholder: t("token") });
  const enter = (event) => {
    event.preventDefault();
    useToken(field.value.trim());
    start();
  };
  main.replaceChildren(h("form", { class: "token", onsubmit: enter }, h("p", {}, t("tokenHelp")), field, " ", h("button", {}, t("enter"))));
  field.focus();
}

function theme() {
  return localStorage.getItem(THEME) ?? "auto";
}

function applyTheme() {
  if (theme() === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme();
}

async function readStatus() {
  const { index } = await ask("statistics");
  names = index.namespaces;
  document.getElementById("index-name").textContent = index.name;
  document.title = `${index.name} · rag_bm25`;
  const { jobs } = await ask("progress");
  const job = jobs.find((each) => each.state === "running");
  const doing = job?.progress ? ` · ${t("writing")} ${job.progress.done}${job.progress.total ? `/${job.progress.total}` : ""}` : "";
  document.getElementById("status").textContent = t("chunks", { n: index.num_chunks }) + doing;
}

async function start() {
  applyTheme();
  try {
    await readStatus();
  } catch (error) {
    if (error.code === "wrong_token") return askForToken();
    render();
    return report(error);
  }
  render();
}

document.getElementById("language").addEventListener("click", () => {
  switchLanguage();
  start();
});
document.getElementById("theme").addEventListener("click", () => {
  localStorage.setItem(THEME, THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
  applyTheme();
  document.getElementById("theme").textContent = t("theme", { theme: t(theme()) });
});
addEventListener("popstate", render);
addEventListener("hashchange", render);
setInterval(() => readStatus().catch(() => {}), STATUS_EVERY);
start();
