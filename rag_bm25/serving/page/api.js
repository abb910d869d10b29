// The server's API, see /openapi.json.

const TOKEN = "rag_bm25.token";

/** What the server refuses, or that it cannot be reached. */
export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Keep the access token for this tab alone. */
export function useToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

/** Say whether a token can be sent at all: a header holds no others. */
export function isToken(token) {
  return /^[\x21-\x7e]+$/.test(token);
}

export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function read(response, signal = undefined) {
  const answer = await response.json().catch(() => {
    signal?.throwIfAborted(); // halfway through the answer
    return null;
  });
  if (response.ok && answer) return answer;
  const error = answer?.error ?? { code: "internal", message: `${response.status} ${response.statusText}` };
  throw new ApiError(error.code, error.message);
}

async function send(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable", error.message);
  }
}

/**
 * Ask a route of the API; arguments that are null, "" or false are left out.
 * @param {string} route  such as "search"
 * @param {Object<string, any>} given
 * @param {AbortSignal} [signal]
 */
export async function ask(route, given = {}, signal = undefined) {
  const wanted = Object.entries(given).filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  const response = await send(`api/v1/${route}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(Object.fromEntries(wanted)),
    signal,
  });
  return read(response, signal);
}

/** Read a stored chunk with its neighbours. */
export async function readChunk(id, namespace) {
  return get(`chunks/${encodeURIComponent(id)}`, { namespace, context: "neighbors" });
}

/** Read some chunks of a document, in its order; or those around one of them. */
export async function readDocument(source, namespace, limit, place) {
  return get("chunks", { source, namespace, limit, ...place });
}

/** List some sources of a scope, with the number of their chunks. */
export async function listSources(scope, offset, limit) {
  return ask("sources", { ...scope, offset, limit });
}

async function get(route, query) {
  return read(await send(`api/v1/${route}?${new URLSearchParams(query)}`, { headers: headers() }));
}
