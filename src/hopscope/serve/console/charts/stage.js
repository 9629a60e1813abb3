/** Base of all charts: a sharp canvas that follows size and theme, hover by pointer and keys, a tooltip, PNG export. */

import { h, fill } from "../lib/dom.js";
import { colour, followTheme } from "../lib/theme.js";

/** Charts that show the same moment under the pointer, by group. */
const groups = new Map();

/**
 * @param {object} options
 * @param {string} options.label description for screen readers
 * @param {number} options.height CSS pixels
 * @param {(context: CanvasRenderingContext2D, size: {width: number, height: number}) => void} options.draw
 * @param {(x: number, y: number) => {content: any, x?: number, y?: number, shared?: number} | null} [options.at] what
 *   is under the pointer; `shared` (a time) is shown by all charts of the group
 * @param {(step: number) => {x: number, y: number} | null} [options.step] the next place to the left or right, for keys
 * @param {(x: number, y: number) => void} [options.click]
 * @param {(fromX: number, toX: number) => void} [options.drag] a range was drawn
 */
export function stage({ label, height, draw, at = null, step = null, click = null, drag = null }) {
  const canvas = h("canvas", { role: "img", "aria-label": label, tabindex: at ? "0" : null, style: { height: `${height}px` } });
  const tip = h("div", { class: "tip", role: "status", hidden: true });
  const element = h("figure", { class: "chart" }, canvas, tip);
  const size = { width: 0, height };
  let due = 0;
  let pressed = null;
  let pointer = null;

  function redraw() {
    due ||= requestAnimationFrame(() => {
      due = 0;
      paint();
    });
  }

  function paint() {
    const ratio = devicePixelRatio || 1;
    size.width = canvas.clientWidth;
    size.height = canvas.clientHeight;
    if (!size.width) return;
    const [w, hh] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
    if (canvas.width !== w || canvas.height !== hh) Object.assign(canvas, { width: w, height: hh });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    context.font = `11.5px ${getComputedStyle(canvas).fontFamily}`;
    draw(context, size);
    if (pressed && pointer && Math.abs(pointer.x - pressed.x) > 3) {
      context.fillStyle = colour("--accent");
      context.globalAlpha = 0.18;
      context.fillRect(Math.min(pressed.x, pointer.x), 0, Math.abs(pointer.x - pressed.x), size.height);
      context.globalAlpha = 1;
    }
  }

  function show(x, y) {
    const found = at?.(x, y);
    tip.hidden = !found;
    if (!found) return null;
    fill(tip, found.content);
    const [left, top] = [found.x ?? x, found.y ?? y];
    const width = tip.offsetWidth;
    tip.style.left = `${Math.max(0, left + 14 + width > size.width ? left - width - 10 : left + 14)}px`;
    tip.style.top = `${Math.max(0, Math.min(top - 10, size.height - tip.offsetHeight))}px`;
    return found;
  }

  const where = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("pointermove", (event) => {
    pointer = where(event);
    const found = show(pointer.x, pointer.y);
    stageOf.onHover?.(found);
    redraw();
  });
  canvas.addEventListener("pointerleave", () => {
    pointer = null;
    tip.hidden = true;
    stageOf.onHover?.(null);
    redraw();
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pressed = where(event);
    if (drag) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    const [start, end] = [pressed, where(event)];
    pressed = null;
    if (!start) return;
    if (drag && Math.abs(end.x - start.x) > 6) drag(Math.min(start.x, end.x), Math.max(start.x, end.x));
    else click?.(end.x, end.y);
    redraw();
  });
  canvas.addEventListener("pointercancel", () => (pressed = null));
  canvas.addEventListener("keydown", (event) => {
    const direction = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -2, ArrowDown: 2 }[event.key];
    if (direction && step) {
      const place = step(direction);
      if (!place) return;
      pointer = place;
      const found = show(place.x, place.y);
      stageOf.onHover?.(found);
      redraw();
      event.preventDefault();
    } else if (event.key === "Enter" && pointer) click?.(pointer.x, pointer.y);
    else if (event.key === "Escape") tip.hidden = true;
  });
  canvas.addEventListener("blur", () => (tip.hidden = true));

  let unfollow = null;
  new ResizeObserver(() => {
    // a chart that was removed from the page has no size; unsubscribe it, so that it can be freed
    if (canvas.clientWidth) unfollow ??= followTheme(redraw);
    else unfollow = void unfollow?.();
    redraw();
  }).observe(canvas);

  const stageOf = {
    element, canvas, size, redraw,
    pointer: () => pointer,
    onHover: null,
    setLabel: (text) => canvas.setAttribute("aria-label", text),
    setHeight(to) {
      if (to === height) return;
      height = to;
      canvas.style.height = `${to}px`;
      redraw();
    },
    /** @returns {Promise<Blob>} */
    png() {
      paint();
      return pictureOf(canvas);
    },
  };
  return stageOf;
}

/** A canvas with the panel's background, as PNG. @returns {Promise<Blob>} */
export function pictureOf(canvas) {
  const copy = h("canvas");
  Object.assign(copy, { width: canvas.width, height: canvas.height });
  const context = copy.getContext("2d");
  context.fillStyle = colour("--panel");
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  return new Promise((resolve) => copy.toBlob(resolve, "image/png"));
}

/** Charts of a group tell each other the moment under the pointer. */
export function group(name) {
  const members = groups.get(name) ?? new Set();
  groups.set(name, members);
  return {
    join: (on) => members.add(on),
    leave: (on) => members.delete(on),
    say: (moment, from) => members.forEach((on) => on !== from && on(moment)),
  };
}
