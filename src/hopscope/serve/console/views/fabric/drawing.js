/** Draws the map: links below, switches and boxes above, labels where there is room. */

import { colour, level } from "../../lib/theme.js";

const HOT = 6;

/**
 * @typedef {object} Scene
 * @property {any} structure
 * @property {any} values
 * @property {ReturnType<import("./layout.js").layout>} map
 * @property {ReturnType<import("./links.js").curves>} curves
 * @property {number | null} limit
 * @property {number} top highest value of the whole network
 */

/** Step of the scale of a value; a hot one is never calm, whatever its value. */
export function stepOf(value, hot, { limit, top }) {
  const found = level(value ?? 0, limit, top);
  return hot ? Math.max(HOT, found) : limit ? found : Math.min(found, 8);
}

/** All links: the calm ones in one stroke for each colour, hot ones on top of them. */
export function drawLinks(context, scene, view, only = null) {
  const { structure, values, curves } = scene;
  const count = curves.count;
  const joined = structure.links.port.includes(null);
  const dense = Math.max(0.22, Math.min(1, (joined ? 300 : 600) / Math.max(1, count / view.k)));
  const paths = Array.from({ length: 10 }, () => null);
  const hotLinks = [];
  for (let at = 0; at < count; at += 1) {
    if (only && !only(at)) continue;
    const value = values.links[at];
    const step = value === null ? 9 : stepOf(value, values.links_hot[at] > 0, scene);
    curve((paths[step] ??= new Path2D()), curves.half, at * 8);
    if (step >= HOT && step < 9) hotLinks.push(at);
  }
  const thin = count > 1500 ? 0.8 : 1.1;
  context.lineCap = "round";
  for (const step of [9, 0, 1, 2, 3, 4, 5, 6, 7, 8]) {
    if (!paths[step]) continue;
    const hot = step >= HOT && step < 9;
    context.strokeStyle = colour(step === 9 || step === 0 ? "--line" : `--h${Math.max(2, step)}`);
    context.globalAlpha = hot ? 1 : only ? 1 : Math.min(1, dense * (0.7 + step * 0.1));
    context.lineWidth = (hot ? 2.4 : only ? 1.6 : thin) / view.k;
    context.stroke(paths[step]);
  }
  const way = new Path2D(); // where a hot link leads, and an arrow in its middle
  for (const at of hotLinks) curve(way, curves.whole, at * 8);
  context.strokeStyle = colour("--h7");
  context.globalAlpha = 0.45;
  context.lineWidth = 1.2 / view.k;
  context.stroke(way);
  context.globalAlpha = 1;
  for (const at of hotLinks) arrow(context, curves.half, at * 8, stepOf(values.links[at], true, scene), 6 / view.k);
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
    if (right - left < context.measureText(pod.name).width + 4) continue;
    context.fillStyle = colour("--faint");
    context.textAlign = "center";
    context.fillText(pod.name, (left + right) / 2, pod.bottom * view.k + view.y + 10);
  }
  context.textAlign = "left";
}

/** Names of the layers, at the left side whatever is shown. */
export function drawLayers(context, scene, view, { height }) {
  context.fillStyle = colour("--faint");
  for (const label of scene.map.labels) context.fillText(label.text, 8, Math.max(12, Math.min(height - 8, label.y * view.k + view.y)));
}

function drawSwitch(context, scene, node, at, { x, y, w, h }) {
  const { values } = scene;
  const hot = values.nodes_hot[at] > 0;
  const step = stepOf(values.nodes[at], hot, scene);
  const name = h < 13 ? "" : nameFor(context, node.name, w - 6);
  const named = name === node.name;
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

/** As much of a name as there is room for: all of it, or the number at its end. */
function nameFor(context, name, room) {
  if (room < 8) return "";
  if (context.measureText(name).width <= room) return name;
  const end = /\d+$/.exec(name)?.[0] ?? "";
  return end && context.measureText(end).width <= room ? end : "";
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

/** What is chosen or under the pointer. */
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
  const w = Math.max(14, context.measureText(text).width + 7);
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
