// What the page shows, kept in the address, so that it can be shared and the browser's own history works.

const DEFAULTS = { view: "search", q: "", k: "10", ns: "*", source: "", group: "1", syntax: "", prefix: "", hit: "", panel: "" };

let isSettled = true; // whether what is shown is a step of the history, so that the next question is another one

/** Return what the address says, with defaults. */
export function current() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  return { ...DEFAULTS, ...given };
}

/** Return the address of what is shown with some changes. */
export function address(changes) {
  const next = Object.entries({ ...current(), ...changes }).filter(([name, value]) => value !== (DEFAULTS[name] ?? ""));
  return `#${new URLSearchParams(Object.fromEntries(next))}`;
}

/** Change the address of what is shown. */
export function change(changes) {
  history.replaceState(null, "", address(changes));
}

/** Change the address to a question that is being typed: one step of the history, however many keystrokes it has. */
export function type(changes) {
  const isStep = isSettled && current().q.trim();
  isSettled = false;
  history[isStep ? "pushState" : "replaceState"](null, "", address({ ...changes, hit: "", panel: "" }));
}

/** Let what is shown stay in the history, where the next question does not replace it. */
export function settle() {
  isSettled = true;
}

/** Change the address, and show what it says. */
export function go(changes) {
  location.hash = address({ hit: "", panel: "", ...changes });
}

/** Return the namespaces to search, as the API takes them. */
export function scope(state) {
  return state.ns === "*" ? { all_namespaces: true } : { namespace: state.ns };
}

/** Return the namespaces to search, and the source if one is chosen. */
export function place(state) {
  return { ...scope(state), filter: state.source ? { source: state.source } : null };
}
