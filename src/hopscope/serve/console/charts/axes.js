/** Scales and axes: time, values (linear or logarithmic), with round marks. */

import { amount, behindUtc, clock, date } from "../lib/format.js";
import { colour } from "../lib/theme.js";

const STEPS_MS = [100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10_800e3, 21_600e3, 43_200e3];
const QUARTER_MS = 900e3;  // all zones differ by a multiple of it, also after a change to or from summer time
const DAY_MS = 86_400e3;
/** Steps of a day and more: the most days that one takes, and which dates begin one. */
const DATES = [
  [1, () => true],
  [2, (day) => (day / DAY_MS) % 2 === 0],
  [7, (day) => day.getUTCDay() === 1],
  [31, (day) => day.getUTCDate() === 1],
  [92, (day) => day.getUTCDate() === 1 && day.getUTCMonth() % 3 === 0],
  [366, (day) => day.getUTCDate() === 1 && day.getUTCMonth() === 0],
];

/** A linear scale: value to pixel, and back. */
export function linear([from, to], [low, high]) {
  const scale = (value) => low + ((value - from) / (to - from || 1)) * (high - low);
  scale.back = (pixel) => from + ((pixel - low) / (high - low || 1)) * (to - from);
  return scale;
}

/** A logarithmic scale that begins at 0: log2(1 + value). */
export function logarithmic([from, to], [low, high]) {
  const log = (value) => Math.log2(1 + Math.max(0, value));
  const inner = linear([log(from), log(to)], [low, high]);
  const scale = (value) => inner(log(value));
  scale.back = (pixel) => 2 ** inner.back(pixel) - 1;
  return scale;
}

/** Round marks between 0 and `top`, about `count` of them. For bytes and counts 1, 2, 5 and their tenfold. */
export function marks(top, count = 4) {
  if (!(top > 0)) return [0];
  const rough = top / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = 0; at <= top * 1.0001; at += step) found.push(at);
  return found;
}

/** Marks of a logarithmic axis: powers of ten, thinned out. */
export function logMarks(top, count = 5) {
  const powers = Math.ceil(Math.log10(Math.max(10, top)));
  const stride = Math.max(1, Math.ceil(powers / count));
  const found = [0];
  for (let at = 0; at <= powers; at += stride) if (10 ** at <= top) found.push(10 ** at);
  return found;
}

/** Round times in the chosen zone between two, at most one for every 90 pixels. */
function timeMarks(from, to, width) {
  const least = ((to - from) * 90) / width;
  const step = STEPS_MS.find((each) => each >= least);
  if (step === undefined) return { step: DAY_MS, found: dateMarks(from, to, least / DAY_MS) };
  const stride = step % QUARTER_MS ? Math.min(step, 300e3) : QUARTER_MS;
  const found = [];
  for (let at = Math.ceil(from / stride) * stride; at <= to; at += stride) {
    if ((at - behindUtc(at)) % step === 0) found.push(at);
  }
  return { step, found };
}

/** The beginnings of days, weeks, months, quarters or years in the chosen zone, `least` days apart; nearer if only one of them would be shown. */
function dateMarks(from, to, least) {
  const fits = DATES.findIndex(([days]) => days >= least);
  const coarse = fits < 0 ? DATES.length - 1 : fits;
  const found = datesFrom(from, to, DATES[coarse][1]);
  return found.length > 1 ? found : datesFrom(from, to, DATES[Math.max(0, coarse - 1)][1]);
}

/** The beginnings of days in the chosen zone for which `begins` holds. */
function datesFrom(from, to, begins) {
  const found = [];
  for (let local = Math.floor((from - behindUtc(from)) / DAY_MS) * DAY_MS; local <= to + DAY_MS; local += DAY_MS) {
    if (!begins(new Date(local))) continue;
    const at = local + behindUtc(local + behindUtc(local));
    if (at >= from && at <= to) found.push(at);
  }
  return found;
}

/** Draw the axis of values on the left: lines across, and texts. */
export function drawValues(context, values, scale, unit, left, right) {
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.lineWidth = 1;
  let free = Infinity;
  for (const value of values) {
    const y = Math.round(scale(value)) + 0.5;
    context.strokeStyle = colour("--line-soft");
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(right, y);
    context.stroke();
    context.fillStyle = colour("--faint");
    if (Math.abs(free - y) < 11) continue;  // texts must not overlap
    context.fillText(amount(value, unit), left - 6, y);
    free = y;
  }
}

/** Draw the axis of time at the bottom. */
export function drawTimes(context, from, to, scale, y, width) {
  const { step, found } = timeMarks(from, to, width);
  let free = 0;
  context.fillStyle = colour("--faint");
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const at of found) {
    const x = scale(at);
    const text = step < DAY_MS ? clock(at, step < 1000 ? 1 : 0) : date(at);
    const short = step >= 60_000 && step < DAY_MS ? text.slice(0, -3) : text;
    const half = context.measureText(short).width / 2;
    if (x - half < free || x + half > context.canvas.clientWidth) continue;  // texts must not overlap
    context.fillText(short, x, y + 6);
    free = x + half + 6;
  }
}

/** A text, cut to a width in pixels. */
export function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let short = text;
  while (short.length > 1 && context.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return `${short}…`;
}
