/** The map on a canvas: a picture that is kept while it is moved, hover, keys, and what is under the pointer. */

import { h, fill } from "../../lib/dom.js";
import { followTheme } from "../../lib/theme.js";
import { pictureOf } from "../../charts/stage.js";
import { camera } from "./camera.js";
import { drawCalm, drawHot, drawLayers, drawNodes, drawPods, drawRing, drawSome, isHot, screen, stepsOf } from "./drawing.js";
import { layout } from "./layout.js";
import { curves, nearest } from "./links.js";

/** Part of the canvas that the kept picture has beyond each side of it. */
const BEYOND = 0.15;
/** If drawing takes longer than this, the picture is redrawn only once the map stops moving. */
const FRAME_MS = 12;

/**
 * @param {object} on
 * @param {(what: {node?: number, cell?: number, link?: number} | null) => any} on.tip content of the tip
 * @param {(what: object | null) => void} on.choose
 * @param {(what: object) => void} on.open
 * @param {(text: string) => void} on.moved zoom and centre for the address
 * @param {(text: string) => void} on.say for screen readers
 */
export function picture(on) {
  const canvas = h("canvas", { class: "map", role: "img", tabindex: "0", "aria-label": "Map of the network" });
  const tip = h("div", { class: "tip", hidden: true });
  const element = h("div", { class: "chart fabric-map" }, canvas, tip);
  const kept = { image: document.createElement("canvas"), view: null, tookMs: 0 };
  const calm = { image: document.createElement("canvas"), view: null };
  const size = { width: 0, height: 0 };
  let scene = null;
  let due = 0;
  let moving = false;
  let over = null;
  let chosen = null;
  let focus = -1;
  const look = camera(canvas, {
    change(now) {
      moving = now;
      tip.hidden = true;
      redraw();
    },
    click: (x, y) => on.choose(hit(x, y)),
    double(x, y) {
      const found = hit(x, y);
      if (found?.node !== undefined) on.open(found);
      else look.zoom(2);
    },
    settled: () => on.moved(look.text()),
  });

  function redraw() {
    due ||= requestAnimationFrame(() => {
      due = 0;
      paint();
    });
  }

  function prepare(context, ratio) {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
    context.textBaseline = "middle";
  }

  /** Everything, at the present zoom, with a margin round the canvas. */
  function keep(ratio) {
    const started = performance.now();
    const [mx, my] = [size.width * BEYOND, size.height * BEYOND];
    const large = { width: size.width + 2 * mx, height: size.height + 2 * my };
    const view = { k: look.view.k, x: look.view.x + mx, y: look.view.y + my };
    const start = ({ image }) => {
      const [w, high] = [Math.round(large.width * ratio), Math.round(large.height * ratio)];
      if (image.width !== w || image.height !== high) Object.assign(image, { width: w, height: high });
      const context = image.getContext("2d");
      prepare(context, ratio);
      context.clearRect(0, 0, large.width, large.height);
      return context;
    };
    const world = (context) => context.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
    if (!calm.view || !same(calm.view, look.view)) {
      const context = start(calm);
      world(context);
      drawPods(context, scene, view);
      drawCalm(context, scene, view);
      calm.view = { ...look.view };
    }
    const context = start(kept);
    context.drawImage(calm.image, 0, 0, large.width, large.height);
    world(context);
    drawHot(context, scene, view);
    prepare(context, ratio);
    drawNodes(context, scene, view, large);
    kept.view = { ...look.view };
    kept.tookMs = performance.now() - started;
  }

  function paint() {
    const ratio = Math.min(2, devicePixelRatio || 1);
    if (!scene || !measure(ratio)) return;
    const view = look.view;
    const far = kept.view && (Math.abs(view.x - kept.view.x) > size.width * BEYOND || Math.abs(view.y - kept.view.y) > size.height * BEYOND);
    if (!kept.view || (!moving && !same(kept.view, view)) || (moving && far && kept.view.k === view.k && kept.tookMs < FRAME_MS)) keep(ratio);
    const context = canvas.getContext("2d");
    prepare(context, ratio);
    context.clearRect(0, 0, size.width, size.height);
    const zoom = view.k / kept.view.k;
    context.drawImage(kept.image, view.x - (kept.view.x + size.width * BEYOND) * zoom, view.y - (kept.view.y + size.height * BEYOND) * zoom,
      size.width * (1 + 2 * BEYOND) * zoom, size.height * (1 + 2 * BEYOND) * zoom);
    drawLayers(context, scene, view, size);
    if (moving) return;
    const lit = over?.node ?? chosen?.node;
    const link = over?.link ?? chosen?.link;
    if (lit !== undefined || link !== undefined) {
      const { from, to } = scene.structure.links;
      context.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
      const incident = (at) => at === link || (lit !== undefined && (from[at] === lit || to[at] === lit)) || (link !== undefined && from[at] === to[link] && to[at] === from[link]);
      drawSome(context, scene, view, incident);
      prepare(context, ratio);
    }
    for (const [what, strong] of [[over, false], [chosen, true]]) {
      if (what?.node !== undefined) drawRing(context, placeOf(what), view, strong);
    }
    if (focus >= 0 && document.activeElement === canvas) drawRing(context, scene.map.places[focus], view, true);
  }

  /** Follow the size of the canvas; false: it has none. */
  function measure(ratio) {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return false;
    if (width !== size.width || height !== size.height || canvas.width !== Math.round(width * ratio)) {
      Object.assign(size, { width, height });
      Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      look.resize(size);
      arrange();
    }
    return true;
  }

  function arrange() {
    if (!size.width || !scene) return;
    scene.map = layout(scene.structure, size);
    scene.curves = curves(scene.structure.links, scene.structure.nodes, scene.map.places);
    kept.view = calm.view = null;
  }

  function placeOf({ node, cell }) {
    const place = scene.map.places[node];
    if (cell === undefined || !place.cells?.[cell]) return place;
    const { x, y, s } = place.cells[cell];
    return { x: place.x + x, y: place.y + y, w: s, h: s, cells: [] };
  }

  function hit(x, y) {
    if (!scene?.map) return null;
    const { nodes } = scene.structure;
    for (let at = 0; at < nodes.length; at += 1) {
      const place = screen(scene.map.places[at], look.view);
      if (Math.abs(x - place.x) > Math.max(6, place.w / 2 + 1) || Math.abs(y - place.y) > Math.max(8, place.h / 2 + 3)) continue;
      if (nodes[at].kind === "switch") return { node: at };
      const k = look.view.k;
      const cell = scene.map.places[at].cells.findIndex((each) => Math.abs(x - place.x - each.x * k) <= each.s * k * 0.58 && Math.abs(y - place.y - each.y * k) <= each.s * k * 0.58);
      return cell >= 0 ? { node: at, cell } : { node: at };
    }
    const k = look.view.k;
    const hot = scene.values.links_hot;
    const link = nearest(scene.curves, (x - look.view.x) / k, (y - look.view.y) / k, 6 / k, (at) => (hot[at] ? 0.35 : 1));
    return link >= 0 ? { link } : null;
  }

  canvas.addEventListener("pointermove", (event) => {
    if (look.dragging() || moving) return;
    const box = canvas.getBoundingClientRect();
    point(hit(event.clientX - box.left, event.clientY - box.top), event.clientX - box.left, event.clientY - box.top);
  });
  canvas.addEventListener("pointerleave", () => point(null, 0, 0));
  function point(found, x, y) {
    canvas.style.cursor = found ? "pointer" : look.view.k > 1 ? "grab" : "default";
    over = found;
    tip.hidden = !found;
    if (found) {
      fill(tip, on.tip(found));
      const width = tip.offsetWidth;
      tip.style.left = `${Math.max(0, x + 16 + width > size.width ? x - width - 12 : x + 16)}px`;
      tip.style.top = `${Math.max(0, Math.min(y + 12, size.height - tip.offsetHeight - 4))}px`;
    }
    redraw();
  }

  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (step && event.shiftKey) look.pan(-step[0] * 80, -step[1] * 80);
    else if (step) walk(step);
    else if (event.key === "+" || event.key === "=") look.zoom(1.5);
    else if (event.key === "-") look.zoom(1 / 1.5);
    else if (event.key === "0") look.fit();
    else if (event.key === "Enter" && focus >= 0) (chosen?.node === focus ? on.open : on.choose)({ node: focus });
    else if (event.key === "Escape") on.choose(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  canvas.addEventListener("blur", redraw);

  /** The nearest node in a direction. */
  function walk([dx, dy]) {
    if (!scene?.map?.places.length) return;
    const from = scene.map.places[focus >= 0 ? focus : 0];
    let [best, least] = [focus >= 0 ? focus : 0, Infinity];
    scene.map.places.forEach((place, at) => {
      const [ax, ay] = [place.x - from.x, place.y - from.y];
      const along = ax * dx + ay * dy;
      const aside = Math.abs(ax * dy) + Math.abs(ay * dx);
      if (at === focus || along <= 1) return;
      const cost = along + 3 * aside;
      if (cost < least) [best, least] = [at, cost];
    });
    focus = best;
    const place = scene.map.places[best];
    look.reveal(place.x, place.y);
    const [x, y] = [place.x * look.view.k + look.view.x, place.y * look.view.k + look.view.y];
    point({ node: best }, x, y);
    on.say(tip.textContent);
  }

  new ResizeObserver(redraw).observe(canvas);
  const unfollow = followTheme(() => {
    kept.view = calm.view = null;
    redraw();
  });

  return {
    element, look,
    /** Show an answer: `structure` and `values` of /api/v0/fabric, `limit` and `top`. */
    set(given) {
      const arranged = scene?.structure === given.structure ? { map: scene.map, curves: scene.curves } : null;
      const before = scene?.steps;
      scene = { ...given, ...arranged };
      scene.steps = stepsOf(scene);
      if (arranged && changes(before, scene.steps)) calm.view = null;
      if (!arranged) {
        focus = -1;
        over = null;
        arrange();
      }
      kept.view = null;
      redraw();
    },
    choose(what) {
      chosen = what;
      redraw();
    },
    zoomTo(text) {
      look.read(text);
      kept.view = null;
      redraw();
    },
    png: () => pictureOf(canvas),
    end: unfollow,
  };
}

/** Whether the appearance of any link that is not hot has changed. */
function changes(before, after) {
  return after.some((step, at) => step !== before[at] && !(isHot(step) && isHot(before[at])));
}

function same(a, b) {
  return a.k === b.k && a.x === b.x && a.y === b.y;
}
