/** Positions on the map: layers from bottom to top, pods as columns, large networks as boxes of cells. */

import { cells } from "./cells.js";

const EDGE = 26;
const natural = new Intl.Collator(undefined, { numeric: true }).compare;

/**
 * @typedef {object} Place
 * @property {number} x centre, in CSS pixels of the unzoomed map
 * @property {number} y centre
 * @property {number} w
 * @property {number} h
 * @property {number} up -1: links to upper layers leave at the top; 1: at the bottom (pods above the planes)
 * @property {{x: number, y: number, s: number}[]} [cells] of a box, relative to its centre; `s` is their side
 */

/**
 * Places of all nodes, in their order, and what is drawn behind them.
 * @param {any} structure of /api/v0/fabric
 * @param {{width: number, height: number}} size
 */
export function layout(structure, { width, height }) {
  const { nodes, layers } = structure;
  const boxes = nodes.some((node) => node.kind === "pod");
  return boxes ? podLayout(nodes, width, height) : layerLayout(nodes, layers, width, height);
}

/** Switches in rows, one for each layer; those of a pod are together. */
function layerLayout(nodes, layers, width, height) {
  const left = EDGE + (width > 600 ? 62 : 6);
  const wide = width - left - EDGE;
  const rows = layers.map((_, layer) => ordered(nodes, layer)).map((row) => row.filter((at) => nodes[at].kind === "switch"));
  const groups = nodes.map((_, at) => at).filter((at) => nodes[at].kind !== "switch").sort((a, b) => natural(nodes[a].name, nodes[b].name));
  const lines = [...rows, groups].filter((row) => row.length);
  const step = (height - 2 * EDGE - 26) / Math.max(1, lines.length - 1);
  const places = new Array(nodes.length);
  const pods = new Map();
  const high = Math.min(70, step * 0.32);
  const widest = Math.max(1, ...lines.map((row) => row.length));
  lines.forEach((row, line) => {
    const y = lines.length === 1 ? height / 2 : height - EDGE - 18 - line * step;
    const slots = withGaps(row, nodes);
    const pitch = wide / Math.max(slots.count, Math.min(widest, 8) * 0.6);
    const w = Math.max(2.2, Math.min(92, pitch * 0.8));
    const start = left + (wide - pitch * slots.count) / 2;
    row.forEach((at, number) => {
      const node = nodes[at];
      const x = start + pitch * (slots.at[number] + 0.5);
      if (node.kind === "switch") places[at] = { x, y, w, h: Math.max(8, Math.min(28, w * 0.5)), up: -1 };
      else places[at] = boxAt(node, x, EDGE / 2 + high / 2, Math.min(pitch * 0.86, 120), high, -1);
      if (!node.pod) return;
      const pod = pods.get(node.pod) ?? { name: node.pod, left: x, right: x, top: y, bottom: y };
      pods.set(node.pod, { ...pod, left: Math.min(pod.left, x - pitch * 0.55), right: Math.max(pod.right, x + pitch * 0.55), top: Math.min(pod.top, y - 26), bottom: Math.max(pod.bottom, y + 25) });
    });
  });
  const labels = rows.map((row, layer) => ({ text: layers[layer], y: row.length ? places[row[0]].y : null })).filter((each) => each.y !== null);
  return { places, pods: [...pods.values()], labels: width > 600 ? labels : [], width, height };
}

/** Slots of a row: one stays free between pods. */
function withGaps(row, nodes) {
  const gap = row.length > 200 ? 2 : 1;
  let slot = -1;
  let before = null;
  const at = row.map((index) => {
    const pod = nodes[index].pod;
    slot += before !== null && pod !== before ? 1 + gap : 1;
    before = pod;
    return slot;
  });
  return { at, count: slot + 1 };
}

function ordered(nodes, layer) {
  return nodes.map((_, at) => at).filter((at) => nodes[at].layer === layer)
    .sort((a, b) => natural(nodes[a].pod ?? "", nodes[b].pod ?? "") || natural(nodes[a].name, nodes[b].name));
}

/** Pods in a row below the planes; if they are many, one half above and one half below. */
function podLayout(nodes, width, height) {
  const by = (kind) => nodes.map((_, at) => at).filter((at) => nodes[at].kind === kind).sort((a, b) => natural(nodes[a].name, nodes[b].name));
  const pods = by("pod");
  const both = pods.length > 12;
  const half = both ? Math.ceil(pods.length / 2) : 0;
  const places = new Array(nodes.length);
  const rows = [[pods.slice(0, half), 0, 1], [by("plane"), both ? 0.5 : 0, -1], [pods.slice(half), 1, -1]];
  const left = width > 600 ? 40 : EDGE / 2;
  const high = Math.min(150, height * (both ? 0.235 : 0.3));
  for (const [row, share, up] of rows) {
    const isPlane = share === 0.5 || (!both && share === 0);
    const pitch = (width - left - EDGE / 2) / Math.max(1, row.length);
    const h = isPlane ? Math.min(high * 0.5, 74) : high;
    const y = EDGE / 2 + h / 2 + share * (height - EDGE - h);
    row.forEach((at, number) => (places[at] = boxAt(nodes[at], left + pitch * (number + 0.5), y, Math.min(pitch * 0.88, 150), h, up)));
  }
  return { places, pods: [], labels: [], width, height };
}

function boxAt(node, x, y, w, h, up) {
  return { x, y, w, h, up, cells: cells(node.cells, w, h, up) };
}
