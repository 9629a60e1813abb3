/** A map of places by time: a row for each place, a cell for each moment, coloured up to and above the limit. */

import { h } from "../lib/dom.js";
import { amount, clock } from "../lib/format.js";
import { colour, heat } from "../lib/theme.js";
import { drawTimes, fit, linear } from "./axes.js";
import { stage } from "./stage.js";

const BOTTOM = 18;
const NARROW = 560;
/** Narrower charts have the names above the cells, a line of this height each. */
const NAME = 20;

/**
 * @typedef {object} Row
 * @property {string} key
 * @property {string} label
 * @property {(number | null)[]} values oldest first
 * @property {number | null} [limit]
 * @property {boolean} [alarm]
 */

/**
 * @param {object} options
 * @param {string} options.label
 * @param {string | null} [options.unit]
 * @param {number} [options.row] height of a row
 * @param {number} [options.left] width of the names
 * @param {(row: Row, time: number) => void} [options.onRow]
 * @param {(from: number, to: number) => void} [options.onRange]
 */
export function heatChart({ label, unit = null, row = 18, left = 190, onRow = null, onRange = null }) {
  /** @type {{rows: Row[], from: number, to: number, unit: string | null}} */
  let shown = { rows: [], from: Date.now() - 60_000, to: Date.now(), unit };
  let chosen = { line: 0, cell: -1 };
  const above = () => (place.size.width < NARROW ? NAME : 0);
  const tall = () => above() + row;
  const grow = () => place.setHeight(Math.max(1, shown.rows.length) * tall() + BOTTOM);
  const x = () => linear([shown.from, shown.to], above() ? [0, place.size.width] : [left, place.size.width - 64]);
  const cells = () => shown.rows[0]?.values.length ?? 1;
  const top = () => Math.max(1, ...shown.rows.map((each) => Math.max(0, ...each.values.map((value) => value ?? 0))));
  const timeOf = (cell) => shown.from + ((cell + 0.5) / cells()) * (shown.to - shown.from);

  const place = stage({
    label, height: row + BOTTOM,
    draw(context, { width, height }) {
      grow();
      const [sx, most] = [x(), top()];
      const [begin, end] = [sx(shown.from), sx(shown.to)];
      const wide = (end - begin) / cells();
      const under = place.pointer() ? Math.floor(place.pointer().y / tall()) : -1;
      shown.rows.forEach((each, line) => {
        const y = line * tall() + above();
        const middle = above() ? y - 8 : y + row / 2;
        if (line === under) {
          context.fillStyle = colour("--hover");
          context.fillRect(0, y - above(), width, tall());
        }
        context.fillStyle = colour("--h0");
        context.fillRect(begin, y + 1, end - begin, row - 2);
        let peak = 0;
        each.values.forEach((value, cell) => {
          if (!(value > 0)) return;
          peak = Math.max(peak, value);
          context.fillStyle = heat(value, each.limit, most);
          const from = Math.floor(begin + cell * wide);
          context.fillRect(from, y + 1, Math.max(1, Math.ceil(begin + (cell + 1) * wide) - from), row - 2);
        });
        context.fillStyle = colour(each.alarm ? "--bad" : "--text");
        context.textBaseline = "middle";
        context.textAlign = "left";
        context.fillText(fit(context, each.alarm ? `◆ ${each.label}` : each.label, above() ? width - 64 : begin - 10), 0, middle);
        context.fillStyle = colour(each.alarm ? "--bad" : "--soft");
        context.textAlign = "right";
        context.fillText(amount(peak, shown.unit), width, middle);
      });
      drawTimes(context, shown.from, shown.to, sx, height - BOTTOM, end - begin);
    },
    at(px, py) {
      const found = cellAt(px, py);
      if (!found) return null;
      chosen = found;
      const each = shown.rows[found.line];
      const value = each.values[found.cell];
      return { shared: timeOf(found.cell), content: [h("span", { class: "time" }, clock(timeOf(found.cell))), h("span", null, each.label),
        h("span", null, h("b", null, value === null ? "no reports" : amount(value, shown.unit)), each.limit ? `, limit ${amount(each.limit, shown.unit)}` : "")] };
    },
    step(direction) {
      if (!shown.rows.length) return null;
      const cell = chosen.cell < 0 ? cells() - 1 : chosen.cell + (Math.abs(direction) === 1 ? direction : 0);
      const line = chosen.line + (Math.abs(direction) === 2 ? direction / 2 : 0);
      chosen = { line: clamp(line, shown.rows.length), cell: clamp(cell, cells()) };
      return { x: x()(timeOf(chosen.cell)), y: chosen.line * tall() + above() + row / 2 };
    },
    click(px, py) {
      const line = Math.floor(py / tall());
      const named = above() ? py - line * tall() < NAME : px < left;
      if (shown.rows[line]) onRow?.(shown.rows[line], named ? null : x().back(px));
    },
    drag: onRange ? (a, b) => onRange(x().back(Math.max(a, above() ? 0 : left)), x().back(b)) : null,
  });
  if (onRow) place.canvas.style.cursor = "pointer";

  function cellAt(px, py) {
    const line = Math.floor(py / tall());
    const share = (px - x()(shown.from)) / (x()(shown.to) - x()(shown.from));
    if (!shown.rows[line] || share < 0 || share > 1) return null;
    return { line, cell: clamp(Math.floor(share * cells()), cells()) };
  }

  return {
    element: place.element,
    png: place.png,
    set(options) {
      shown = { ...shown, ...options };
      grow();
      place.redraw();
    },
    export: () => ({
      names: ["place", ...Array.from({ length: cells() }, (_, cell) => new Date(timeOf(cell)).toISOString())],
      rows: shown.rows.map((each) => [each.label, ...each.values]),
    }),
  };
}

/** The scale of the colours, with the limit where they change. */
export function heatScale(limit, top, unit) {
  const boxes = (from, to) => Array.from({ length: to - from + 1 }, (_, at) => h("i", { style: { background: `var(--h${from + at})` } }));
  const text = (value) => amount(value, unit);
  return h("div", { class: "scale" }, "0", boxes(1, limit ? 5 : 8), limit ? [`${text(limit)} limit`, boxes(6, 8)] : null, text(Math.max(top, limit ?? 0)));
}

function clamp(value, count) {
  return Math.min(count - 1, Math.max(0, value));
}
