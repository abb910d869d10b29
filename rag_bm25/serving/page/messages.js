// What went wrong, in words.

import { ApiError } from "./api.js";
import { h } from "./dom.js";
import { t } from "./texts.js";

/** Return an error in the words of the page, or the server's own. */
export function text(error) {
  if (error instanceof ApiError && (error.code === "unreachable" || error.code === "busy")) return t(error.code);
  return error.message;
}

export function message(error) {
  return h("p", { class: "error", role: "alert" }, text(error));
}
