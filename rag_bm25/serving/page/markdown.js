// Markdown as text: its signs stay, so that nothing is lost, but step back, and what they mean is seen.

// No rule goes back further than a line or a few hundred characters: a hostile text takes no longer than another.
const CODE = [
  /^(?<open>(`{3,}|~{3,})[^\n]*)(?:\n|$)[^]*?(?:^(?<close>\2[^\n]*)$|(?![^]))/dgm,
  /(?<open>(?<!`)(`+))(?!`)[^\n]{0,400}?(?<!`)(?<close>\2)(?!`)/dg,
];
const RULES = {
  heading: /^(?<open> {0,3}#{1,6} )[^\n]+$/dgm,
  row: /^ *\|[^\n]*$/dgm,
  item: /^[ >]*(?<open>>|[*+-] )/dgm,
  strong: /(?<open>(\*\*|(?<!\w)__))(?=\S)[^\n]{0,400}?(?<=\S)(?<close>\2)(?!(?<=__)(?:\.?\w|\())/dg, // but __init__.py
  em: /(?<![\w*])(?<open>([*_]))(?=[^\s*_])[^\n*_]{0,400}?(?<=\S)(?<close>\2)(?![\w*])/dg,
  link: /(?<open>!?\[)[^\n\]]{0,400}(?<close>\]\([^\s)]{0,400}\))/dg,
};
const SIGNS_OF_A_ROW = /^[ |:-]+$|\|/g;

/** Return the classes of each character of a text, counted as JavaScript counts them. */
export function classes(text) {
  const found = Array(text.length).fill("");
  const paint = (name, [start, end]) => {
    for (let at = start; at < end; at++) found[at] = `${found[at]} ${name}`.trim();
  };
  const apply = (name, rule) => {
    for (const match of text.matchAll(rule)) {
      if (found[match.index].includes("code")) continue;
      paint(name, match.indices[0]);
      signsOf(match).forEach((sign) => paint("sign", sign));
    }
  };
  CODE.forEach((rule) => apply("code", rule));
  for (const [name, rule] of Object.entries(RULES)) apply(name, rule);
  return found;
}

/** Return the places of the signs of a match: those that open and close it, or the lines of a table. */
function signsOf({ 0: text, index, indices: { groups } }) {
  if (groups) return Object.values(groups).filter(Boolean);
  return Array.from(text.matchAll(SIGNS_OF_A_ROW), ({ 0: sign, index: at }) => [index + at, index + at + sign.length]);
}
