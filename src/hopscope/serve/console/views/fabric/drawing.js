/** Draws the map: links below, switches and boxes above, labels where there is room. */

import { fit } from "../../charts/axes.js";
import { colour, level } from "../../lib/theme.js";

const HOT = 6;
const UNKNOWN = 9;
const CHUNK = 32;
/** Widths of texts: measuring 1,280 names takes longer than drawing them. */
const widths = new Map();

/**
 * @typedef {object} Scene
 * @property {any} structure
 * @property {any} values
 * @property {ReturnType<import("./layout.js").layout>} map
 * @property {ReturnType<import("./links.js").curves>} curves
 * @property {number | null} limit
 * @property {number} top highest value of the whole network
 * @property {Uint8Array} steps of the links, by `stepsOf`
 */

/** Step of the scale of a value; a hot one is never calm, whatever its value. */
function stepOf(value, hot, { limit, top }) {
  const found = level(value ?? 0, limit, top);
  return hot ? Math.max(HOT, found) : limit ? found : Math.min(found, 8);
}

/** Steps of all links, one byte each; UNKNOWN: without a value. */
export function stepsOf(scene) {
  const { links, links_hot } = scene.values;
  return Uint8Array.from(links, (value, at) => (value === null ? UNKNOWN : stepOf(value, links_hot[at] > 0, scene)));
}

/** Whether links of this step are drawn above the others. */
export function isHot(step) {
  return step >= HOT && step !== UNKNOWN;
}

/** Links that are not hot, pale: they change seldom, and are kept as a picture. */
export function drawCalm(context, scene, view) {
  const { structure, curves } = scene;
  const joined = structure.links.port.includes(null);
  const dense = Math.max(0.16, Math.min(1, (joined ? 240 : 520) / Math.max(1, curves.count / view.k)));
  strokes(context, scene, (at) => !isHot(scene.steps[at]), (step) => {
    context.globalAlpha = Math.min(1, dense * (0.7 + (step % UNKNOWN) * 0.1));
    context.lineWidth = (curves.count > 1500 ? 0.8 : 1.1) / view.k;
  });
}

/** Hot links: each half in its colour with an arrow, and a trace of where it leads. */
export function drawHot(context, scene, view) {
  const { curves, steps } = scene;
  const way = new Path2D();
  for (let at = 0; at < curves.count; at += 1) if (isHot(steps[at])) curve(way, curves.whole, at * 8);
  context.strokeStyle = colour("--h7");
  context.globalAlpha = 0.45;
  context.lineWidth = 1.2 / view.k;
  context.stroke(way);
  strokes(context, scene, (at) => isHot(steps[at]), () => {
    context.globalAlpha = 1;
    context.lineWidth = 2.4 / view.k;
  });
  for (let at = 0; at < curves.count; at += 1) if (isHot(steps[at])) arrow(context, curves.half, at * 8, steps[at], 6 / view.k);
}

/** Links of the selection, at full strength. */
export function drawSome(context, scene, view, wanted) {
  strokes(context, scene, wanted, (step) => {
    context.globalAlpha = 1;
    context.lineWidth = (isHot(step) ? 2.4 : 1.6) / view.k;
  });
}

/** Strokes of CHUNK links at a time: one path of thousands takes twice as long, one of each link three times. */
function strokes(context, { curves, steps }, wanted, style) {
  const paths = new Map();
  context.lineCap = "round";
  const end = (step, { path }) => {
    style(step);
    context.strokeStyle = colour(step === UNKNOWN || step === 0 ? "--line" : `--h${Math.max(2, step)}`);
    context.stroke(path);
  };
  for (let at = 0; at < curves.count; at += 1) {
    if (!wanted(at)) continue;
    const step = steps[at];
    const chunk = paths.get(step) ?? { path: new Path2D(), count: 0 };
    paths.set(step, chunk);
    curve(chunk.path, curves.half, at * 8);
    chunk.count += 1;
    if (chunk.count < CHUNK) continue;
    end(step, chunk);
    paths.delete(step);
  }
  for (const [step, chunk] of paths) end(step, chunk);
  context.globalAlpha = 1;
}

function curve(path, of, i) {
  path.moveTo(of[i], of[i + 1]);
  path.bezierCurveTo(of[i + 2], of[i + 3], of[i + 4], of[i + 5], of[i + 6], of[i + 7]);
}

/** At the end of a half, in its direction. */
function arrow(context, of, i, step, side) {
  const angle = Math.atan2(of[i + 7] - of[i + 5], of[i + 6] - of[i + 4]);
  const [x, y] = [of[i + 6], of[i + 7]];
  const corner = (turn, length) => [x + Math.cos(angle + turn) * length, y + Math.sin(angle + turn) * length];
  context.fillStyle = colour(`--h${step}`);
  context.beginPath();
  context.moveTo(...corner(0, side * 1.4));
  context.lineTo(...corner(2.4, side));
  context.lineTo(...corner(-2.4, side));
  context.fill();
}

/** Frames of pods, in world coordinates. */
export function drawPods(context, scene, view) {
  for (const pod of scene.map.pods) {
    context.fillStyle = colour("--line-soft");
    context.globalAlpha = 0.55;
    rounded(context, pod.left, pod.top, pod.right - pod.left, pod.bottom - pod.top, 8 / view.k);
    context.fill();
    context.globalAlpha = 1;
  }
}

/** Nodes, in screen coordinates: their size is bounded, so that zooming in makes room. */
export function drawNodes(context, scene, view, { width, height }) {
  const { structure, values, map } = scene;
  let box = -1;
  structure.nodes.forEach((node, at) => {
    if (node.kind !== "switch") box += 1;
    const place = screen(map.places[at], view);
    if (place.x + place.w < 0 || place.x - place.w > width || place.y + place.h < 0 || place.y - place.h > height) return;
    if (node.kind === "switch") drawSwitch(context, scene, node, at, place);
    else drawBox(context, scene, node, at, place, values.cells[box] ?? [], view);
  });
  for (const pod of map.pods) {
    const [left, right] = [pod.left * view.k + view.x, pod.right * view.k + view.x];
    const name = nameFor(context, pod.name, right - left);
    if (!name) continue;
    context.fillStyle = colour("--faint");
    context.textAlign = "center";
    context.fillText(name, (left + right) / 2, pod.bottom * view.k + view.y + 9);
  }
  context.textAlign = "left";
}

/** Names of the layers, always at the left side. */
export function drawLayers(context, scene, view, { height }) {
  context.fillStyle = colour("--faint");
  for (const label of scene.map.labels) context.fillText(label.text, 8, Math.max(12, Math.min(height - 8, label.y * view.k + view.y)));
}

function drawSwitch(context, scene, node, at, { x, y, w, h }) {
  const { values } = scene;
  const hot = values.nodes_hot[at] > 0;
  const step = stepOf(values.nodes[at], hot, scene);
  const name = h < 13 ? "" : nameFor(context, node.name, w - 6);
  const named = name === node.name || name.endsWith("…");
  const left = x - w / 2;
  rounded(context, left, y - h / 2, w, h, Math.min(5, w / 3));
  context.fillStyle = values.nodes[at] === null ? colour("--panel") : colour(named && !hot ? "--raised" : `--h${step}`);
  context.fill();
  if (w > 4) {
    context.lineWidth = hot ? 2 : named ? 1.2 : 0.8;
    context.strokeStyle = colour(values.nodes[at] === null ? "--line" : hot ? `--h${step}` : `--h${Math.max(3, step)}`);
    context.stroke();
  }
  if (name) {
    context.fillStyle = colour(hot ? ink(step) : "--text");
    context.textAlign = "center";
    context.fillText(name, x, y + 0.5);
    context.textAlign = "left";
  }
  if (node.host_ports && w > 3) drawHosts(context, scene, node, at, left, y + h / 2 + 3, w);
  if (hot && !name) flag(context, x, y - h / 2 - 4, step, Math.min(5, Math.max(3, w / 2)));
}

function widthOf(context, text) {
  const known = widths.get(text);
  if (known !== undefined) return known;
  if (widths.size > 20_000) widths.clear();
  const width = context.measureText(text).width;
  widths.set(text, width);
  return width;
}

/** The part of a name that fits: all of it, the number at its end, or its beginning. */
export function nameFor(context, name, room) {
  if (room < 8) return "";
  if (widthOf(context, name) <= room) return name;
  const end = /\d+$/.exec(name)?.[0] ?? "";
  if (end && widthOf(context, end) <= room) return end;
  return room < 40 ? "" : fit(context, name, room);
}

/** Ports to hosts: a comb below the switch, in the colour of the worst of them. */
function drawHosts(context, scene, node, at, left, top, w) {
  const { values } = scene;
  const step = stepOf(values.hosts[at], values.hosts_hot[at] > 0, scene);
  context.fillStyle = colour(values.hosts[at] === null ? "--line" : `--h${Math.max(2, step)}`);
  const teeth = w / node.host_ports > 3 ? node.host_ports : 1;
  const pitch = w / teeth;
  for (let tooth = 0; tooth < teeth; tooth += 1) context.fillRect(left + pitch * tooth + pitch * 0.15, top, pitch * 0.7, 4);
}

function drawBox(context, scene, node, at, { x, y, w, h }, cellValues, view) {
  const { values, map } = scene;
  const place = map.places[at];
  const hot = values.nodes_hot[at];
  const step = stepOf(values.nodes[at], hot > 0, scene);
  rounded(context, x - w / 2, y - h / 2, w, h, 6);
  context.fillStyle = colour("--raised");
  context.fill();
  context.lineWidth = hot ? 2 : 1;
  context.strokeStyle = colour(hot ? `--h${step}` : "--line");
  context.stroke();
  const k = view.k;
  const labels = node.cells.names;
  place.cells.forEach((cell, number) => {
    const side = cell.s * k;
    const value = cellValues[number];
    const above = scene.limit !== null && value > scene.limit;
    const cellStep = stepOf(value, above, scene);
    const [cx, cy] = [x + cell.x * k, y + cell.y * k];
    context.fillStyle = colour(value === null || value === undefined ? "--line" : `--h${Math.max(1, cellStep)}`);
    if (side > 7) {
      rounded(context, cx - side / 2, cy - side / 2, side, side, Math.min(4, side / 5));
      context.fill();
    } else context.fillRect(cx - side / 2, cy - side / 2, side, side);
    const label = nameFor(context, labels[number], side - 4);
    if (label) {
      context.fillStyle = colour(cellStep >= HOT ? ink(cellStep) : "--text");
      context.textAlign = "center";
      context.fillText(label, cx, cy);
      context.textAlign = "left";
    }
  });
  context.textAlign = "center";
  context.fillStyle = colour("--soft");
  const name = nameFor(context, short(node), w + 4);
  if (name) context.fillText(name, x, place.up < 0 ? y - h / 2 + 9 : y + h / 2 - 9);
  context.textAlign = "left";
  if (hot) badge(context, x + w / 2 - 2, y - h / 2 + 2, hot, step);
}

/** A ring around a node: strong for the selected one, thin for the one under the pointer. */
export function drawRing(context, place, view, strong) {
  const { x, y, w, h } = screen(place, view);
  rounded(context, x - w / 2 - 3, y - h / 2 - 3, w + 6, h + 6, 8);
  context.lineWidth = strong ? 2.5 : 1.5;
  context.strokeStyle = colour(strong ? "--accent" : "--soft");
  context.stroke();
}

/** Centre and size of a node on the screen. */
export function screen(place, { k, x, y }) {
  const box = place.cells !== undefined;
  return { x: place.x * k + x, y: place.y * k + y, w: box ? place.w * k : Math.min(110, place.w * k), h: box ? place.h * k : Math.min(30, place.h * Math.sqrt(k)) };
}

/** A name without its kind, where there is little room: pod-12 is enough, plane-of-17 is "cores". */
function short(node) {
  return node.kind === "plane" ? `${node.cells.names.length} ${(node.cells.names[0] ?? "").split(/[^a-z]/i)[0] || "switches"}` : node.name;
}

/** Token of text on a hot colour. */
function ink(step) {
  return step >= 8 ? "--on-h8" : "--on-h6";
}

function flag(context, x, y, step, side) {
  context.fillStyle = colour(`--h${step}`);
  context.beginPath();
  context.moveTo(x - side, y - side * 1.5);
  context.lineTo(x + side, y - side * 1.5);
  context.lineTo(x, y);
  context.fill();
}

function badge(context, x, y, count, step) {
  const text = count > 99 ? "99+" : String(count);
  const w = Math.max(14, widthOf(context, text) + 7);
  rounded(context, x - w / 2, y - 7, w, 14, 7);
  context.fillStyle = colour(`--h${step}`);
  context.fill();
  context.lineWidth = 1.5;
  context.strokeStyle = colour("--panel");
  context.stroke();
  context.fillStyle = colour(ink(step));
  context.textAlign = "center";
  context.fillText(text, x, y + 0.5);
  context.textAlign = "left";
}

function rounded(context, x, y, w, h, r) {
  context.beginPath();
  context.roundRect(x, y, w, h, Math.max(0, Math.min(r, w / 2, h / 2)));
}
