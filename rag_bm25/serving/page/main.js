// The page: its views, its language and theme, and the state of the index.

import { ask, forgetToken, hasToken, isToken, useToken } from "./api.js";
import { showCorpus } from "./corpus.js";
import { h } from "./dom.js";
import { message } from "./messages.js";
import { showSearch } from "./search.js";
import { address, current } from "./state.js";
import { showTerms } from "./terms.js";
import { languageNow, switchLanguage, t } from "./texts.js";

const VIEWS = { search: showSearch, terms: showTerms, index: showCorpus };
const THEMES = ["auto", "light", "dark"];
const THEME = "rag_bm25.theme";
const STATUS_EVERY = 10_000; // milliseconds

const main = document.getElementById("main");
let names = [""];
let numChunks = 0;
let end = () => {};

function render() {
  end();
  const { view } = current();
  const shown = Object.hasOwn(VIEWS, view) ? view : "search";
  document.getElementById("tabs").replaceChildren(...Object.keys(VIEWS).map((name) =>
    h("a", { href: address({ view: name }), "aria-current": name === shown ? "page" : null, onclick: (event) => carry(event, name) }, t(name))));
  end = VIEWS[shown](main, { names, numChunks, report });
}

/** Write what every screen has, that which asks for a token, too. */
function renderFrame() {
  document.documentElement.lang = languageNow() === "zh" ? "zh-CN" : "en";
  document.querySelector(".skip").textContent = t("skip");
  document.getElementById("tabs").setAttribute("aria-label", t("views"));
  document.getElementById("language").textContent = t("language");
  document.getElementById("theme").textContent = t("theme", { theme: t(theme()) });
  document.getElementById("forget")?.remove();
  if (hasToken()) document.querySelector(".switches").append(h("button", { id: "forget", type: "button", onclick: () => (forgetToken(), start()) }, t("forget")));
}

/** Let a link take along what was typed since it was drawn, in this tab or in another. */
function carry(event, view) {
  event.currentTarget.href = address({ view });
}

/** Show an error above what there is, or take it away after an answer; where a token is wanted, ask for it. */
function report(error = null) {
  for (const older of main.querySelectorAll(":scope > .error")) older.remove();
  if (error?.code === "wrong_token") askForToken();
  else if (error) main.querySelector(".told, h2")?.before(message(error));
}

function askForToken() {
  end();
  const field = h("input", { type: "password", autocomplete: "current-password", "aria-label": t("token"), placeholder: t("token") });
  const name = h("input", { type: "text", autocomplete: "username", value: "rag_bm25", hidden: true }); // for password managers
  const wrong = h("p", { class: "error", role: "alert" }, hasToken() ? t("wrongToken") : null);
  const enter = (event) => {
    event.preventDefault();
    const token = field.value.trim();
    wrong.textContent = isToken(token) ? "" : t("wrongToken");
    if (!isToken(token)) return;
    useToken(token);
    start();
  };
  main.replaceChildren(h("form", { class: "token", onsubmit: enter }, h("p", {}, t("tokenHelp")), name, field, " ", h("button", {}, t("enter")), wrong));
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
  numChunks = index.num_chunks;
  document.getElementById("index-name").textContent = index.name;
  document.title = `${index.name} · rag_bm25`;
  const { jobs } = await ask("progress");
  const job = jobs.find((each) => each.state === "running");
  const progress = job?.progress.at(-1);
  const doing = progress ? ` · ${t("writing")} ${progress.done}${progress.total ? `/${progress.total}` : ""}` : "";
  document.getElementById("status").textContent = t(index.num_chunks === 1 ? "chunk" : "chunks", { n: index.num_chunks }) + doing;
}

async function start() {
  applyTheme();
  renderFrame();
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
  renderFrame();
  render(); // at once: what is typed next would be lost
  readStatus().catch(() => {});
});
document.getElementById("theme").addEventListener("click", () => {
  localStorage.setItem(THEME, THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
  applyTheme();
  renderFrame();
});
setInterval(() => readStatus().catch(() => {}), STATUS_EVERY);
await start();
addEventListener("hashchange", render); // not before: what was typed until the first answer would be drawn over
