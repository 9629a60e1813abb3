/** Lines over time: several series, limits, bounds round values, alarms as bands, one crosshair for a group. */

import { h } from "../lib/dom.js";
import { amount, clock } from "../lib/format.js";
import { colour } from "../lib/theme.js";
import { drawTimes, drawValues, linear, logarithmic, logMarks, marks } from "./axes.js";
import { group, stage } from "./stage.js";

const LEFT = 58;
const BOTTOM = 18;

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {string} [colour] a token, as "--s1"
 * @property {[number, number | null][]} points milliseconds and value; null is a gap
 * @property {[number, number | null, number | null][]} [bounds] milliseconds, lowest and highest: drawn as a band; null is a gap
 * @property {boolean} [fill]
 * @property {boolean} [step] the value holds until the next point
 */

/**
 * @param {object} options
 * @param {string} options.label
 * @param {string | null} [options.unit]
 * @param {number} [options.height]
 * @param {string} [options.sync] charts with the same name share the crosshair
 * @param {(from: number, to: number) => void} [options.onRange] a range was drawn with the pointer
 */
export function lineChart({ label, unit = null, height = 130, sync = "", onRange = null }) {
  /** @type {{series: Series[], from: number, to: number, limit?: number | null, bands?: any[], log?: boolean, top?: number}} */
  let shown = { series: [], from: Date.now() - 60_000, to: Date.now() };
  let moment = null;
  const together = sync ? group(sync) : null;
  const x = () => linear([shown.from, shown.to], [LEFT, place.size.width - 6]);
  const top = () => {
    let most = shown.limit ?? 0;
    for (const each of shown.series) {
      for (const [, value] of each.points) if (value > most) most = value;
      for (const [, , value] of each.bounds ?? []) if (value > most) most = value;
    }
    return Math.max(shown.top ?? 0, most * 1.06) || 1;
  };
  const y = () => (shown.log ? logarithmic : linear)([0, top()], [place.size.height - BOTTOM, 6]);

  const place = stage({
    label, height,
    draw(context, { width, height: high }) {
      const [sx, sy, most] = [x(), y(), top()];
      for (const band of shown.bands ?? []) {
        const [a, b] = [Math.max(LEFT, sx(band.from)), Math.min(width, sx(band.to ?? shown.to))];
        context.fillStyle = colour(band.colour ?? "--bad-soft");
        context.fillRect(a, 6, Math.max(1.5, b - a), high - BOTTOM - 6);
      }
      drawValues(context, shown.log ? logMarks(most) : marks(most, high < 110 ? 3 : 4), sy, unit, LEFT, width);
      drawTimes(context, shown.from, shown.to, sx, high - BOTTOM, width);
      context.save();
      context.beginPath();
      context.rect(LEFT, 0, width - LEFT, high - BOTTOM + 3);
      context.clip();
      shown.series.forEach((each, at) => drawSeries(context, each, colour(each.colour ?? `--s${1 + (at % 6)}`), sx, sy));
      if (shown.limit) drawLimit(context, sy(shown.limit), width);
      context.restore();
      if (moment !== null && moment >= shown.from && moment <= shown.to) {
        context.strokeStyle = colour("--faint");
        context.setLineDash([3, 3]);
        context.beginPath();
        context.moveTo(Math.round(sx(moment)) + 0.5, 4);
        context.lineTo(Math.round(sx(moment)) + 0.5, high - BOTTOM);
        context.stroke();
        context.setLineDash([]);
      }
    },
    at(px) {
      if (px < LEFT || !shown.series.length) return null;
      const time = nearest(x().back(px));
      if (time === null) return null;
      return { shared: time, x: x()(time), content: [h("span", { class: "time" }, clock(time)), shown.series.map((each, at) => {
        const value = valueAt(each, time);
        const key = h("i", { class: "key", style: { background: `var(${each.colour ?? `--s${1 + (at % 6)}`})` } });
        return h("span", null, key, `${each.name} `, h("b", null, value === null ? "–" : amount(value, unit)));
      })] };
    },
    step(direction) {
      const times = allTimes();
      if (!times.length) return null;
      const at = moment === null ? times.length - 1 : times.findIndex((each) => each >= moment);
      const to = Math.min(times.length - 1, Math.max(0, at + Math.sign(direction)));
      return { x: x()(times[to]), y: 20 };
    },
    drag: onRange ? (a, b) => onRange(x().back(a), x().back(b)) : null,
  });

  const allTimes = () => [...new Set(shown.series.flatMap((each) => each.points.map(([time]) => time)))].sort((a, b) => a - b);
  const nearest = (time) => {
    let best = null;
    for (const each of shown.series) for (const [at] of each.points) if (best === null || Math.abs(at - time) < Math.abs(best - time)) best = at;
    return best;
  };
  const share = (time) => {
    if (time === moment) return;
    moment = time;
    place.redraw();
  };
  place.onHover = (found) => {
    share(found?.shared ?? null);
    together?.say(found?.shared ?? null, share);
  };
  together?.join(share);

  return {
    element: place.element,
    png: place.png,
    /** Set the content. */
    set(options) {
      shown = { ...shown, ...options };
      place.redraw();
    },
    end: () => together?.leave(share),
    export: () => ({
      names: ["time", ...shown.series.map((each) => each.name)],
      rows: allTimes().map((time) => [new Date(time).toISOString(), ...shown.series.map((each) => valueAt(each, time))]),
    }),
  };
}

/** A legend of series. */
export function legend(series) {
  return h("div", { class: "legend" }, series.map((each, at) =>
    h("span", null, h("i", { style: { background: `var(${each.colour ?? `--s${1 + (at % 6)}`})` } }), each.name)));
}

function drawSeries(context, each, paint, sx, sy) {
  if (each.bounds?.length) {
    context.fillStyle = paint;
    context.globalAlpha = 0.16;
    for (const run of runs(each.bounds)) {
      context.beginPath();
      run.forEach(([time, , high], at) => (at ? context.lineTo(sx(time), sy(high)) : context.moveTo(sx(time), sy(high))));
      [...run].reverse().forEach(([time, low]) => context.lineTo(sx(time), sy(low)));
      context.fill();
    }
    context.globalAlpha = 1;
  }
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.strokeStyle = paint;
  for (const run of runs(each.points)) {
    context.beginPath();
    run.forEach(([time, value], at) => {
      if (at && each.step) context.lineTo(sx(time), sy(run[at - 1][1]));
      if (at) context.lineTo(sx(time), sy(value));
      else context.moveTo(sx(time), sy(value));
    });
    context.stroke();
    if (run.length === 1) {  // no line: a dot
      context.fillStyle = paint;
      context.beginPath();
      context.arc(sx(run[0][0]), sy(run[0][1]), 2.5, 0, 2 * Math.PI);
      context.fill();
    }
    if (each.fill) {
      context.lineTo(sx(run.at(-1)[0]), sy(0));
      context.lineTo(sx(run[0][0]), sy(0));
      context.fillStyle = paint;
      context.globalAlpha = 0.12;
      context.fill();
      context.globalAlpha = 1;
    }
  }
}

function drawLimit(context, at, width) {
  context.strokeStyle = colour("--bad");
  context.setLineDash([5, 4]);
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(LEFT, Math.round(at) + 0.5);
  context.lineTo(width, Math.round(at) + 0.5);
  context.stroke();
  context.setLineDash([]);
}

/** Points between gaps. */
function runs(points) {
  const found = [];
  let run = [];
  for (const point of points) {
    if (point[1] === null || point[1] === undefined) {
      if (run.length) found.push(run);
      run = [];
    } else run.push(point);
  }
  if (run.length) found.push(run);
  return found;
}

function valueAt(each, time) {
  let best = null;
  for (const [at, value] of each.points) {
    if (each.step ? at <= time : at === time) best = value;
    else if (at > time) break;
  }
  return best;
}
