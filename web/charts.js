// Lines over the last minutes, as SVG: no library needed for three of them.
import { h, svg } from "./dom.js";

const WIDTH = 400;
const HEIGHT = 126;
const LEFT = 48;
const SPANS = [5, 15, 30, 60]; // minutes
const BOTTOM = 18;
const TOP = 8;

/** The least of 1, 2, 5, 10, 20, ... that is not below the value. */
function ceiling(value) {
  let step = 1;
  for (let i = 0; step < value; i++) step = [2, 5, 10][i % 3] * 10 ** Math.floor(i / 3);
  return step;
}

/** The span of a chart that shows samples from this time on: 5 to 60 minutes. */
export function span(firstMs, endMs) {
  return SPANS.find((minutes) => endMs - firstMs <= minutes * 60000) ?? SPANS.at(-1);
}

/**
 * A chart of series [{name, class, values: [[time_ms, value]]}] over the minutes before endMs. A gap in time is a gap in
 * the line. least: the least value at the top; format: a value as text.
 */
export function chart(title, series, { endMs, minutes, everyMs }, least, format) {
  const from = endMs - minutes * 60000;
  const most = ceiling(Math.max(least, ...series.flatMap((s) => s.values.map((v) => v[1]))));
  const x = (time) => LEFT + (Math.max(0, time - from) / (endMs - from)) * (WIDTH - LEFT - 4);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const now = (s) => (s.values.length ? format(s.values.at(-1)[1]) : "–");
  const grid = [0, 0.5, 1].map((share) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH - 4, y1: y(share * most), y2: y(share * most) }),
    svg("text", { class: "axis", x: LEFT - 6, y: y(share * most) + 4, "text-anchor": "end" }, format(share * most)),
  ]);
  const times = [1, 0.5, 0].map((share) => svg("text", {
    class: "axis", x: x(endMs - share * minutes * 60000), y: HEIGHT - 3,
    "text-anchor": share === 1 ? "start" : share === 0 ? "end" : "middle",
  }, share === 0 ? "now" : `${minutes * share} min`));
  const lines = series.map((s) => svg("path", { class: `line ${s.class}`, d: path(s.values, x, y, everyMs) }));
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("span", { class: "title" }, title), series.map((s) => h("span", { class: `key ${s.class}` }, s.name, h("b", {}, now(s))))),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. Now: ${series.map((s) => `${s.name} ${now(s)}`).join(", ")}` },
      grid, times, lines));
}

function path(values, x, y, everyMs) {
  let text = "";
  let before = -Infinity;
  for (const [time, value] of values) {
    const start = time - before > 3 * everyMs;
    text += `${start ? "M" : "L"}${x(time).toFixed(1)} ${y(value).toFixed(1)}${start ? "h0.5" : ""}`;
    before = time;
  }
  return text;
}
