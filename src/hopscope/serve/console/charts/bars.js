/** A histogram: bars between values, on a logarithmic axis of values, with quantiles as labelled lines. */

import { h } from "../lib/dom.js";
import { amount, si } from "../lib/format.js";
import { colour } from "../lib/theme.js";
import { drawValues, linear, logarithmic, logMarks } from "./axes.js";
import { stage } from "./stage.js";

const LEFT = 44;
const BOTTOM = 18;
const TOP = 16;

/**
 * @param {{label: string, unit?: string | null, height?: number}} options
 */
export function barChart({ label, unit = null, height = 150 }) {
  /** @type {{bars: [number, number, number][], lines: {at: number, text: string}[], log: boolean, unit: string | null}} */
  let shown = { bars: [], lines: [], log: true, unit };
  const ends = () => [shown.bars[0]?.[0] ?? 0, shown.bars.at(-1)?.[1] ?? 1];
  const x = () => logarithmic(ends(), [LEFT, place.size.width - 6]);
  const most = () => Math.max(1, ...shown.bars.map(([, , count]) => count));
  const y = () => (shown.log ? logarithmic : linear)([0, most()], [place.size.height - BOTTOM, TOP]);
  const place = stage({
    label, height,
    draw(context, { width, height: high }) {
      if (!shown.bars.length) return;
      const [sx, sy] = [x(), y()];
      drawValues(context, shown.log ? logMarks(most(), 3) : [0, most()], sy, null, LEFT, width);
      context.fillStyle = colour("--h4");
      for (const [low, to, count] of shown.bars) {
        if (count > 0) context.fillRect(sx(low) + 0.5, sy(count), Math.max(1, sx(to) - sx(low) - 1), sy(0) - sy(count));
      }
      context.fillStyle = colour("--faint");
      context.textBaseline = "top";
      const marked = logMarks(ends()[1], 8).filter((value) => value >= ends()[0]);
      let free = -Infinity;
      for (const value of marked) {
        const text = amount(value, shown.unit);
        const at = sx(value);
        const half = context.measureText(text).width / 2;
        if (at - half < free || at + half > width) continue;
        context.textAlign = "center";
        context.fillText(text, at, high - BOTTOM + 4);
        free = at + half + 10;
      }
      drawLines(context, sx, high, width);
    },
    at(px) {
      const value = x().back(px);
      const bar = shown.bars.find(([low, to]) => value >= low && value < to);
      if (!bar) return null;
      const total = shown.bars.reduce((sum, [, , count]) => sum + count, 0) || 1;
      return { content: [h("span", { class: "time" }, `${amount(bar[0], shown.unit)} – ${amount(bar[1], shown.unit)}`),
        h("span", null, h("b", null, si(bar[2])), ` values, ${((100 * bar[2]) / total).toFixed(2)} %`)] };
    },
    step(direction) {
      const now = place.pointer() ? x().back(place.pointer().x) : -1;
      const at = shown.bars.findIndex(([low, to]) => now >= low && now < to);
      const bar = shown.bars[Math.min(shown.bars.length - 1, Math.max(0, at + Math.sign(direction)))];
      return bar ? { x: x()((bar[0] + bar[1]) / 2), y: 30 } : null;
    },
  });

  function drawLines(context, sx, high, width) {
    let free = -Infinity;
    context.textBaseline = "top";
    context.textAlign = "left";
    for (const { at, text } of [...shown.lines].sort((a, b) => a.at - b.at)) {
      const px = Math.round(sx(at)) + 0.5;
      context.strokeStyle = colour("--s2");
      context.beginPath();
      context.moveTo(px, TOP - 2);
      context.lineTo(px, high - BOTTOM);
      context.stroke();
      const wide = context.measureText(text).width;
      const from = Math.min(px + 2, width - wide);
      if (from < free) continue;
      context.fillStyle = colour("--s2");
      context.fillText(text, from, 1);
      free = from + wide + 8;
    }
  }

  return {
    element: place.element,
    png: place.png,
    set(options) {
      shown = { ...shown, ...options };
      place.redraw();
    },
    export: () => ({ names: ["from", "to", "count"], rows: shown.bars }),
  };
}
