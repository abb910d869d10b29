// What the page shows, kept in the address, so that it can be shared and the browser's own history works.

const DEFAULTS = { view: "search", q: "", k: "10", ns: "*", group: "1", syntax: "", prefix: "" };

/** Return what the address says, with defaults. */
export function current() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  return { ...DEFAULTS, ...given };
}

/** Change the address; a new view is a step of the history, and a keystroke is none. */
export function change(changes, { step = false } = {}) {
  const next = Object.entries({ ...current(), ...changes }).filter(([name, value]) => value !== (DEFAULTS[name] ?? ""));
  const hash = `#${new URLSearchParams(Object.fromEntries(next))}`;
  history[step ? "pushState" : "replaceState"](null, "", hash);
}

/** Return the namespaces to search, as the API takes them. */
export function scope(state) {
  return state.ns === "*" ? { all_namespaces: true } : { namespace: state.ns };
}
