/** Links as curves: each direction is drawn from its switch to the middle, so that both are visible. */

const POINTS = 6;
const BUNDLE = 0.82;
/** The number of cables above which the cables of a pod are drawn as a bundle. */
const MANY = 300;

/**
 * Curves of all links, in CSS pixels of the unzoomed map.
 * @param {any} links columns of /api/v0/fabric
 * @param {any[]} nodes
 * @param {import("./layout.js").Place[]} places
 * @returns {{half: Float32Array, whole: Float32Array, middle: Float32Array, count: number}} `half`: 8
 *   numbers of a cubic for each link, from its switch to the middle; `whole`: to its end; `middle`: POINTS points on
 *   the half, for hits
 */
export function curves(links, nodes, places) {
  const count = links.from.length;
  const half = new Float32Array(count * 8);
  const whole = new Float32Array(count * 8);
  const middle = new Float32Array(count * POINTS * 2);
  const bundle = count > 2 * MANY ? bundles(nodes, places) : null;
  for (let at = 0; at < count; at += 1) {
    const [a, b] = [links.from[at], links.to[at]];
    const [p, q] = [places[a], places[b]];
    const same = Math.abs(p.y - q.y) < 1;
    const sign = p.y > q.y ? -1 : 1;
    const bow = Math.min(90, 14 + Math.abs(p.x - q.x) * 0.25);
    const side = p.y - p.h / 2 < 0.75 * bow ? 1 : -1; // above its row if there is room, as high as the bow goes
    const [y1, y2] = same ? [p.y + (side * p.h) / 2, q.y + (side * q.h) / 2] : [p.y + (sign * p.h) / 2, q.y - (sign * q.h) / 2];
    const reach = same ? side * bow : (y2 - y1) * 0.5;
    const across = bundle && nodes[a].pod !== nodes[b].pod;
    const c1 = [across ? mix(p.x, bundle[a], BUNDLE) : p.x, y1 + reach];
    const c2 = [across ? mix(q.x, bundle[b], BUNDLE) : q.x, same ? y2 + reach : y2 - reach];
    whole.set([p.x, y1, ...c1, ...c2, q.x, y2], at * 8);
    split(half, at * 8, [p.x, y1], c1, c2, [q.x, y2]);
    for (let step = 0; step < POINTS; step += 1) {
      const t = (step + 0.5) / POINTS;
      middle[(at * POINTS + step) * 2] = cubic(half, at * 8, t, 0);
      middle[(at * POINTS + step) * 2 + 1] = cubic(half, at * 8, t, 1);
    }
  }
  return { half, whole, middle, count };
}

/** Where the links of each node run together: in the middle of its pod, or of all nodes of the top layer. */
function bundles(nodes, places) {
  const sums = new Map();
  nodes.forEach((node, at) => {
    if (!node.pod) return;
    const sum = sums.get(node.pod) ?? [0, 0];
    sums.set(node.pod, [sum[0] + places[at].x, sum[1] + 1]);
  });
  return nodes.map((node, at) => (node.pod ? sums.get(node.pod)[0] / sums.get(node.pod)[1] : places[at].x));
}

/** The link nearest to a point, at most `reach` away; -1: none. Of two, one that is `hot` wins. */
export function nearest({ middle, count }, x, y, reach, weight) {
  let best = -1;
  let least = reach * reach;
  for (let at = 0, i = 0; at < count; at += 1) {
    const easier = weight(at);
    for (let step = 0; step < POINTS - 1; step += 1, i += 2) {
      const distance = toSegment(x, y, middle[i], middle[i + 1], middle[i + 2], middle[i + 3]) * easier;
      if (distance < least) [least, best] = [distance, at];
    }
    i += 2;
  }
  return best;
}

function toSegment(x, y, ax, ay, bx, by) {
  const [dx, dy] = [bx - ax, by - ay];
  const t = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
  return (x - ax - t * dx) ** 2 + (y - ay - t * dy) ** 2;
}

/** First half of a cubic, by de Casteljau. */
function split(into, at, p0, p1, p2, p3) {
  for (const axis of [0, 1]) {
    const a = (p0[axis] + p1[axis]) / 2;
    const m = (p1[axis] + p2[axis]) / 2;
    const c = (p2[axis] + p3[axis]) / 2;
    const b = (a + m) / 2;
    into[at + axis] = p0[axis];
    into[at + 2 + axis] = a;
    into[at + 4 + axis] = b;
    into[at + 6 + axis] = (b + (m + c) / 2) / 2;
  }
}

function cubic(of, at, t, axis) {
  const u = 1 - t;
  return u * u * u * of[at + axis] + 3 * u * u * t * of[at + 2 + axis] + 3 * u * t * t * of[at + 4 + axis] + t * t * t * of[at + 6 + axis];
}

function mix(a, b, share) {
  return a + (b - a) * share;
}
