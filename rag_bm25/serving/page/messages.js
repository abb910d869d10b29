// What went wrong, in words.

import { ApiError } from "./api.js";
import { h } from "./dom.js";
import { hasText, languageNow, t } from "./texts.js";

/** Return an error in the words of the page, or the server's own. */
export function text(error) {
  if (!(error instanceof ApiError)) return error.message;
  if (hasText(`error_${error.code}`)) return t(`error_${error.code}`);
  return t("error", { message: error.message });
}

/** Return a reason in the words of the page, or the server's own. */
export function reasonText({ code, message, details = {} }) {
  const met = details.or_more ? "_met_or_more" : details.met ? "_met" : ""; // a filter that chunks meet does not exclude all
  const name = `reason_${code}${met}`;
  if (languageNow() === "en" || !hasText(name)) return message;
  const listed = Object.fromEntries(Object.entries(details).map(([name, value]) => [name, Array.isArray(value) ? value.join("、") : value]));
  const meant = details.suggestion ? t("didYouMean", { text: details.suggestion }) : "";
  return t(name, listed) + meant;
}

/** Return why a chunk is missing, in the words of the page. */
export function diagnosisText({ id, reasons, text: words }) {
  return languageNow() === "en" ? words : t("missingBecause", { id, reasons: reasons.map(reasonText).join("；") });
}

export function message(error) {
  return h("p", { class: "error", role: "alert" }, text(error));
}
