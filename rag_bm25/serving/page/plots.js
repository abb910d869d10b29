// Plots, drawn as SVG.

import { s } from "./dom.js";
import { format } from "./texts.js";

const [HEIGHT, LEFT, BOTTOM, TOP] = [260, 56, 34, 34];

/**
 * Draw a histogram.
 * @param {number[]} counts  of each bin
 * @param {number[]} edges  of the bins, one more
 * @param {{at: number, text: string}[]} lines  to compare with
 * @param {{x: string, y: string}} names  of the axes
 * @param {number} width  in pixels, so that the words keep their size on a narrow screen
 */
export function histogram(counts, edges, lines, names, width) {
  const most = Math.max(...counts, 1);
  const low = edges[0];
  const high = Math.max(edges.at(-1), ...lines.map(({ at }) => at * 1.05));
  const x = (value) => LEFT + ((value - low) / (high - low || 1)) * (width - LEFT - 8);
  const y = (count) => HEIGHT - BOTTOM - (count / most) * (HEIGHT - BOTTOM - TOP);
  const bars = counts.map((count, at) => s("rect", {
    x: x(edges[at]) + 0.5, y: y(count), width: Math.max(x(edges[at + 1]) - x(edges[at]) - 1, 1), height: HEIGHT - BOTTOM - y(count), class: "bin",
  }, s("title", {}, `${format(edges[at], 0)}–${format(edges[at + 1], 0)}: ${format(count)}`)));
  const whole = ticks(0, most).filter(Number.isInteger); // chunks are counted
  const marks = lines.flatMap(({ at, text }, row) => {
    const nearEnd = x(at) > width - 150;
    return [
      s("line", { x1: x(at), x2: x(at), y1: 8 + row * 12, y2: HEIGHT - BOTTOM, class: `line line-${row}` }),
      s("text", { x: x(at) + (nearEnd ? -4 : 4), y: 12 + row * 13, "text-anchor": nearEnd ? "end" : "start" }, text),
    ];
  });
  return s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${names.y}: ${names.x}` },
    ...ticks(low, high).map((value) => s("text", { x: x(value), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, format(value))),
    ...whole.map((value) => s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value))),
    ...whole.map((value) => s("line", { x1: LEFT, x2: width - 8, y1: y(value), y2: y(value), class: "grid" })),
    ...bars, ...marks,
    s("text", { x: width - 8, y: HEIGHT - 4, "text-anchor": "end", class: "name" }, names.x),
    s("text", { x: 4, y: TOP - 14, class: "name" }, names.y));
}

/** Return about five round values in a range. */
export function ticks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, at) => (first + at) * step);
}
