// What the page shows, kept in the address, so that it can be shared and the browser's own history works.

const DEFAULTS = { view: "search", q: "", k: "10", ns: "*", source: "", group: "1", syntax: "", prefix: "" };

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

/** Change the address; a keystroke is no step of the history, as a link to a view is. */
export function change(changes) {
  history.replaceState(null, "", address(changes));
}

/** Change the address, and show what it says. */
export function go(changes) {
  location.hash = address(changes);
}

/** Return the namespaces to search, as the API takes them. */
export function scope(state) {
  return state.ns === "*" ? { all_namespaces: true } : { namespace: state.ns };
}

/** Return the namespaces to search, and the source if one is chosen. */
export function place(state) {
  return { ...scope(state), filter: state.source ? { source: state.source } : null };
}
