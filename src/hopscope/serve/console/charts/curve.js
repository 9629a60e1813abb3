/** Shares by a value, as a success by an age: lines from 0 to 100 %, with markers. */

import { h } from "../lib/dom.js";
import { percent } from "../lib/format.js";
import { colour } from "../lib/theme.js";
import { drawValues, linear, marks } from "./axes.js";
import { stage } from "./stage.js";

const LEFT = 52;
const BOTTOM = 20;

/**
 * @param {{label: string, x: (value: number) => string, height?: number}} options `x`: text of a value of the axis
 */
export function curveChart({ label, x: textOf, height = 200 }) {
  /** @type {{xs: number[], series: {name: string, values: number[]}[], markers: {at: number, text: string}[]}} */
  let shown = { xs: [], series: [], markers: [] };
  const end = () => shown.xs.at(-1) ?? 1;
  const x = () => linear([0, end()], [LEFT, place.size.width - 8]);
  const y = () => linear([0, 1], [place.size.height - BOTTOM, 10]);
  const place = stage({
    label, height,
    draw(context, { width, height: high }) {
      const [sx, sy] = [x(), y()];
      drawValues(context, [0, 0.25, 0.5, 0.75, 1].map((share) => share * 1e6), (ppm) => sy(ppm / 1e6), "ppm", LEFT, width);
      shown.series.forEach((each, at) => {
        context.strokeStyle = colour(`--s${1 + at}`);
        context.lineWidth = 1.8;
        context.beginPath();
        each.values.forEach((value, number) => context[number ? "lineTo" : "moveTo"](sx(shown.xs[number]), sy(value)));
        context.stroke();
      });
      context.fillStyle = colour("--faint");
      context.textBaseline = "top";
      context.textAlign = "center";
      for (const value of marks(end(), 5)) {
        const text = textOf(value);
        const half = context.measureText(text).width / 2;
        if (sx(value) + half < width) context.fillText(text, Math.max(LEFT + half - 10, sx(value)), high - BOTTOM + 5);
      }
      drawMarkers(context, sx, high, width);
    },
    at(px) {
      if (px < LEFT || !shown.xs.length) return null;
      const value = Math.min(end(), Math.max(0, x().back(px)));
      return { x: x()(value), content: [h("span", { class: "time" }, textOf(value)), shown.series.map((each, at) =>
        h("span", null, h("i", { class: "key", style: { background: `var(--s${1 + at})` } }), `${each.name} `, h("b", null, percent(interpolate(shown.xs, each.values, value)))))] };
    },
    step(direction) {
      const pointer = place.pointer();
      const value = (pointer ? x().back(pointer.x) : 0) + (Math.sign(direction) * end()) / 40;
      return shown.xs.length ? { x: x()(Math.min(end(), Math.max(0, value))), y: 20 } : null;
    },
  });

  function drawMarkers(context, sx, high, width) {
    context.textBaseline = "top";
    context.textAlign = "left";
    shown.markers.forEach(({ at, text }, number) => {
      const px = Math.round(sx(Math.min(end(), at))) + 0.5;
      context.strokeStyle = context.fillStyle = colour("--s2");
      context.lineWidth = 1;
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(px, 8);
      context.lineTo(px, high - BOTTOM);
      context.stroke();
      context.setLineDash([]);
      const wide = context.measureText(text).width;
      context.fillText(text, px + 4 + wide > width ? px - 4 - wide : px + 4, 10 + 15 * number);
    });
  }

  return {
    element: place.element,
    png: place.png,
    set(options) {
      shown = { ...shown, ...options };
      place.redraw();
    },
    export: () => ({ names: ["age", ...shown.series.map((each) => each.name)], rows: shown.xs.map((value, at) => [value, ...shown.series.map((each) => each.values[at])]) }),
  };
}

/** The value of a line at x, between two of its points. */
export function interpolate(xs, ys, x) {
  const at = xs.findIndex((each) => each >= x);
  if (at < 0) return ys.at(-1);
  if (at === 0) return ys[0];
  const share = (x - xs[at - 1]) / (xs[at] - xs[at - 1] || 1);
  return ys[at - 1] + share * (ys[at] - ys[at - 1]);
}
