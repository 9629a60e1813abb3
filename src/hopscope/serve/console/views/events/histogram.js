/** Events over time, as bars: warnings and the others; a drag chooses a range. */

import { h } from "../../lib/dom.js";
import { clock, ms, si } from "../../lib/format.js";
import { choose } from "../../lib/range.js";
import { colour } from "../../lib/theme.js";
import { drawTimes, drawValues, linear, marks } from "../../charts/axes.js";
import { stage } from "../../charts/stage.js";

const LEFT = 44;
const BOTTOM = 18;
const TOP = 6;

export function histogram() {
  /** @type {{time: number, bad: number, other: number, kinds: Record<string, number>}[]} */
  let bars = [];
  let shown = { from: Date.now() - 60_000, to: Date.now(), width: 1000 };
  const x = () => linear([shown.from, shown.to], [LEFT, place.size.width - 6]);
  const most = () => Math.max(1, ...bars.map((each) => each.bad + each.other));
  const barAt = (time) => bars.find((each) => time >= each.time && time < each.time + shown.width);
  const place = stage({
    label: "Events over time; drag to choose a range", height: 92,
    draw(context, { width, height }) {
      const sx = x();
      const sy = linear([0, most()], [height - BOTTOM, TOP]);
      drawValues(context, marks(most(), 2), sy, null, LEFT, width);
      drawTimes(context, shown.from, shown.to, sx, height - BOTTOM, width);
      for (const each of bars) {
        const [left, right] = [Math.max(LEFT, sx(each.time)), Math.min(width - 6, sx(each.time + shown.width))];
        const wide = Math.max(1, right - left - 1);
        context.fillStyle = colour("--h4");
        context.fillRect(left, sy(each.other), wide, sy(0) - sy(each.other));
        context.fillStyle = colour("--h7");
        context.fillRect(left, sy(each.other + each.bad), wide, sy(each.other) - sy(each.other + each.bad));
      }
    },
    at(px) {
      const time = x().back(px);
      const bar = barAt(time);
      if (px < LEFT || !bar) return null;
      const kinds = Object.entries(bar.kinds).sort(([, a], [, b]) => b - a).slice(0, 6);
      return { content: [h("span", { class: "time" }, `${clock(bar.time, 0)} – ${clock(bar.time + shown.width, 0)}`),
        ...kinds.map(([kind, count]) => h("span", null, h("b", null, si(count)), ` ${kind.replaceAll("_", " ")}`))] };
    },
    step(direction) {
      if (!bars.length) return null;
      const now = place.pointer() ? x().back(place.pointer().x) : -1;
      const at = bars.findIndex((each) => now >= each.time && now < each.time + shown.width);
      const bar = bars[Math.min(bars.length - 1, Math.max(0, at + Math.sign(direction)))];
      return { x: x()(bar.time + shown.width / 2), y: 20 };
    },
    click(px) {
      const bar = barAt(x().back(px));
      if (bar) choose(bar.time, bar.time + shown.width);
    },
    drag: (from, to) => choose(Math.round(x().back(Math.max(LEFT, from))), Math.round(x().back(to))),
  });
  return {
    element: place.element,
    png: place.png,
    export: () => ({ names: ["time", "warnings", "others"], rows: bars.map((each) => [new Date(each.time).toISOString(), each.bad, each.other]) }),
    /** @param {any} data of /events/histogram @param {(kind: string) => boolean} isBad */
    update(data, isBad) {
      const found = new Map();
      for (const { time, kind, count } of data.items) {
        const at = ms(time);
        const bar = found.get(at) ?? { time: at, bad: 0, other: 0, kinds: {} };
        bar[isBad(kind) ? "bad" : "other"] += Number(count);
        bar.kinds[kind] = (bar.kinds[kind] ?? 0) + Number(count);
        found.set(at, bar);
      }
      bars = [...found.values()].sort((a, b) => a.time - b.time);
      shown = { from: ms(data.since), to: ms(data.until), width: data.bucket_seconds * 1000 };
      place.redraw();
    },
  };
}
