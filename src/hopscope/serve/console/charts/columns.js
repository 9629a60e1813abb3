/** Values by category: grouped bars, or lines from one category to the next. */

import { h } from "../lib/dom.js";
import { amount } from "../lib/format.js";
import { colour } from "../lib/theme.js";
import { drawValues, linear, marks } from "./axes.js";
import { stage } from "./stage.js";

const LEFT = 58;
const BOTTOM = 20;

/**
 * @typedef {{name: string, values: (number | null)[]}} Column one series, a value for each category
 * @param {{label: string, unit?: string | null, height?: number}} options
 */
export function columnChart({ label, unit = null, height = 260 }) {
  /** @type {{categories: string[], series: Column[], lines: boolean}} */
  let shown = { categories: [], series: [], lines: false };
  const step = () => (place.size.width - LEFT - 6) / Math.max(1, shown.categories.length);
  const middle = (at) => LEFT + (at + 0.5) * step();
  const paint = (at) => colour(`--s${1 + (at % 6)}`);

  const place = stage({
    label, height,
    draw(context, { width, height: high }) {
      const values = shown.series.flatMap((each) => each.values.filter((value) => value !== null));
      const top = Math.max(1e-12, ...values) * 1.05;
      const low = Math.min(0, ...values);
      const y = linear([low, top], [high - BOTTOM, 6]);
      drawValues(context, [...(low < 0 ? [low] : []), ...marks(top)], y, unit, LEFT, width);
      shown.series.forEach((each, at) => (shown.lines ? drawLine : drawBars)(context, each, at, y));
      drawNames(context, high);
    },
    at(px) {
      const at = Math.floor((px - LEFT) / step());
      if (px < LEFT || at >= shown.categories.length) return null;
      return { x: middle(at), content: [h("span", { class: "time" }, shown.categories[at]), shown.series.map((each, number) =>
        h("span", null, h("i", { class: "key", style: { background: `var(--s${1 + (number % 6)})` } }), `${each.name} `,
          h("b", null, each.values[at] === null ? "–" : amount(each.values[at], unit))))] };
    },
    step(direction) {
      const pointer = place.pointer();
      const now = pointer ? Math.floor((pointer.x - LEFT) / step()) : -1;
      const to = Math.min(shown.categories.length - 1, Math.max(0, now + Math.sign(direction)));
      return shown.categories.length ? { x: middle(to), y: 20 } : null;
    },
  });

  function drawBars(context, each, at, y) {
    const wide = Math.max(1, Math.min(40, (step() * 0.8) / shown.series.length));
    context.fillStyle = paint(at);
    each.values.forEach((value, number) => {
      if (value === null) return;
      const left = middle(number) + (at - shown.series.length / 2) * wide;
      context.fillRect(left, Math.min(y(value), y(0)), Math.max(1, wide - 1), Math.max(1, Math.abs(y(0) - y(value))));
    });
  }

  function drawLine(context, each, at, y) {
    context.strokeStyle = paint(at);
    context.lineWidth = 1.5;
    context.beginPath();
    let open = false;
    each.values.forEach((value, number) => {
      if (value === null) open = false;
      else {
        context[open ? "lineTo" : "moveTo"](middle(number), y(value));
        open = true;
      }
    });
    context.stroke();
  }

  function drawNames(context, high) {
    context.fillStyle = colour("--faint");
    context.textAlign = "center";
    context.textBaseline = "top";
    let free = LEFT - 20;
    shown.categories.forEach((name, at) => {
      const text = name.length > 22 ? `${name.slice(0, 21)}…` : name;
      const half = context.measureText(text).width / 2;
      if (middle(at) - half < free || middle(at) + half > place.size.width) return;
      context.fillText(text, middle(at), high - BOTTOM + 5);
      free = middle(at) + half + 8;
    });
  }

  return {
    element: place.element,
    png: place.png,
    set(options) {
      shown = { ...shown, ...options };
      place.redraw();
    },
    export: () => ({ names: ["category", ...shown.series.map((each) => each.name)],
      rows: shown.categories.map((name, at) => [name, ...shown.series.map((each) => each.values[at])]) }),
  };
}
