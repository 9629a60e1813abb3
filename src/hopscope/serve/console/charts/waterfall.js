/** A waterfall of hops: each begins where the previous one ends; bounds around the stored value; queue and link next to it. */

import { h } from "../lib/dom.js";
import { amount, duration, si } from "../lib/format.js";
import { colour } from "../lib/theme.js";
import { fit, linear, marks } from "./axes.js";
import { stage } from "./stage.js";

const ROW = 30;
const TOP = 20;

/**
 * @typedef {object} Step
 * @property {string} key
 * @property {string} label
 * @property {number | null} value ns, the newest
 * @property {number | null} stored ns; what is drawn if there is no newest value
 * @property {number | null} limit T: while no event comes, the value is within this of the stored one; ns
 * @property {number | null} [lowest]
 * @property {number | null} [highest]
 * @property {number | null} [queue] occupancy
 * @property {number | null} [link] utilisation
 * @property {boolean} [alarm]
 * @property {boolean} [differs] missing in the compared path
 */

/**
 * @param {object} options
 * @param {string} options.label
 * @param {(step: Step) => void} [options.onStep] a row was chosen
 */
export function waterfall({ label, onStep = null }) {
  /** @type {{steps: Step[], total: Step | null, top: number | null}} */
  let shown = { steps: [], total: null, top: null };
  let line = 0;
  const valueOf = (step) => step.value ?? step.stored;
  const rows = () => (shown.total ? [...shown.steps, shown.total] : shown.steps);
  const narrow = () => place.size.width < 560;
  const left = () => (narrow() ? 96 : Math.min(210, Math.max(130, place.size.width * 0.2)));
  const right = () => place.size.width - (narrow() ? 62 : 216);

  function begins() {
    let at = 0;
    return shown.steps.map((step) => {
      const begin = at;
      at += valueOf(step) ?? 0;
      return begin;
    });
  }

  /** The largest value that the axis must show. */
  function reach() {
    const starts = begins();
    const ends = shown.steps.map((step, at) => starts[at] + Math.max(valueOf(step) ?? 0, step.stored !== null && step.limit !== null ? step.stored + Math.min(step.limit, step.stored) : 0));
    return Math.max(1, ...ends, shown.total ? (valueOf(shown.total) ?? 0) : 0);
  }

  const place = stage({
    label, height: TOP + ROW,
    draw(context, { width, height }) {
      const [from, to] = [left(), right()];
      const most = shown.top ?? reach();
      const x = linear([0, most], [from, to]);
      drawAxis(context, marks(most, narrow() ? 2 : 5).filter((each) => each <= most), x, height);
      const starts = begins();
      const worst = Math.max(0, ...shown.steps.map((step) => valueOf(step) ?? 0));
      const largest = (name) => Math.max(1, ...shown.steps.map((step) => step[name] ?? 0));
      const [queues, links] = [largest("queue"), largest("link")];
      if (!narrow()) {
        context.fillStyle = colour("--faint");
        context.textAlign = "left";
        context.textBaseline = "top";
        context.fillText("queue", to + 78, 2);
        context.fillText("link", to + 150, 2);
      }
      rows().forEach((step, at) => {
        const total = step === shown.total;
        const y = TOP + at * ROW;
        const middle = y + ROW / 2;
        if (place.pointer() && Math.floor((place.pointer().y - TOP) / ROW) === at) {
          context.fillStyle = colour("--hover");
          context.fillRect(0, y, width, ROW);
        }
        if (total) {
          context.fillStyle = colour("--line");
          context.fillRect(0, y, width, 1);
        }
        context.textBaseline = "middle";
        context.textAlign = "left";
        context.fillStyle = colour(step.alarm ? "--bad" : "--text");
        context.fillText(fit(context, `${step.alarm ? "▲ " : step.differs ? "≠ " : ""}${step.label}`, from - 10), 0, middle);
        drawStep(context, step, total ? 0 : starts[at], x, middle, total ? "--s6" : valueOf(step) === worst && worst > 0 ? "--h7" : "--s1", to);
        context.fillStyle = colour("--text");
        context.textAlign = "right";
        const value = valueOf(step);
        context.fillText(value === null ? "–" : `${step.value === null ? "~" : ""}${duration(value)}`, to + 60, middle);
        if (narrow() || total) return;
        gauge(context, step.queue, queues, to + 78, middle);
        gauge(context, step.link, links, to + 150, middle);
      });
    },
    at(_, y) {
      const at = Math.floor((y - TOP) / ROW);
      const step = rows()[at];
      if (!step) return null;
      line = at;
      return { content: tip(step), y: TOP + at * ROW + 8 };
    },
    step(direction) {
      if (!rows().length) return null;
      line = place.pointer() ? Math.max(0, Math.min(rows().length - 1, line + Math.sign(direction))) : 0;
      return { x: left() + 4, y: TOP + line * ROW + ROW / 2 };
    },
    click(_, y) {
      const step = shown.steps[Math.floor((y - TOP) / ROW)];
      if (step) onStep?.(step);
    },
  });
  if (onStep) place.canvas.classList.add("leads");

  return {
    element: place.element,
    png: place.png,
    reach,
    /** `top`: the end of the axis, to compare two; null: what it needs. */
    set(options) {
      shown = { ...shown, ...options };
      place.setHeight(TOP + Math.max(1, rows().length) * ROW);
      place.redraw();
    },
  };
}

function drawAxis(context, values, x, height) {
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const value of values) {
    const at = Math.round(x(value)) + 0.5;
    context.strokeStyle = colour("--line-soft");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(at, TOP - 3);
    context.lineTo(at, height);
    context.stroke();
    context.fillStyle = colour("--faint");
    context.fillText(value ? duration(value) : "0", at, 3);
  }
}

function drawStep(context, step, begin, x, middle, paint, end) {
  const value = step.value ?? step.stored;
  if (value === null) return;
  const from = x(begin);
  context.fillStyle = colour(paint);
  context.globalAlpha = step.value === null ? 0.55 : 1;
  context.fillRect(from, middle - 7, Math.max(2, Math.min(x(begin + value), end) - from), 14);
  context.globalAlpha = 1;
  if (step.stored === null || step.limit === null) return;
  const [low, high] = [x(begin + Math.max(0, step.stored - step.limit)), Math.min(end, x(begin + step.stored + step.limit))];
  context.strokeStyle = colour("--text");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(low, middle + 10.5);
  context.lineTo(high, middle + 10.5);
  context.moveTo(low, middle + 8);
  context.lineTo(low, middle + 13);
  const beyond = high >= end ? 4 : 0; // an arrow: the bound lies beyond the axis
  context.moveTo(high - beyond, middle + 8);
  context.lineTo(high, middle + (beyond ? 10.5 : 13));
  if (beyond) context.lineTo(high - beyond, middle + 13);
  context.stroke();
  const at = Math.min(end, x(begin + step.stored));
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(at, middle - 9);
  context.lineTo(at, middle + 12);
  context.stroke();
}

function gauge(context, value, top, left, middle) {
  if (value === null || value === undefined) return;
  context.fillStyle = colour("--h0");
  context.fillRect(left, middle + 6, 56, 4);
  context.fillStyle = colour("--h4");
  context.fillRect(left, middle + 6, Math.min(1, value / top) * 56, 4);
  context.fillStyle = colour("--soft");
  context.textAlign = "left";
  context.fillText(si(value), left, middle - 3);
}

function tip(step) {
  const row = (name, text) => text !== null && h("span", null, `${name} `, h("b", null, text));
  const known = (value) => (value === null || value === undefined ? null : duration(value));
  return [h("span", { class: "time" }, step.label), row("latest", known(step.value)),
    row("stored", step.stored === null ? null : `${duration(step.stored)}${step.limit === null ? "" : ` ± ${duration(step.limit)}`}`),
    step.age !== null && step.age !== undefined && row("stored for", duration(step.age)),
    known(step.lowest) && row("range", `${duration(step.lowest)} to ${duration(step.highest)}`),
    row("queue", step.queue === null || step.queue === undefined ? null : amount(step.queue, null)),
    row("link", step.link === null || step.link === undefined ? null : amount(step.link, null))];
}
