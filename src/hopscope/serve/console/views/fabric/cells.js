/** The switches in a box, as a grid of squares: the lowest layer on the side away from the core. */

const HEAD = 15;

/**
 * @param {{layers: number[]} | null} listed
 * @param {number} w
 * @param {number} h
 * @param {number} up -1: the core is above
 * @returns {{x: number, y: number, s: number}[]}
 */
export function cells(listed, w, h, up) {
  if (!listed) return [];
  const layers = [...new Set(listed.layers)].sort((a, b) => a - b);
  const counts = layers.map((layer) => listed.layers.filter((each) => each === layer).length);
  const high = h - HEAD - 6 - (layers.length - 1) * 5;
  const side = bestSide(counts, w - 8, high);
  const found = [];
  const linesOf = (count) => Math.ceil(count / Math.min(count, Math.max(1, Math.floor((w - 8) / side))));
  const free = Math.max(0, high - counts.reduce((sum, count) => sum + linesOf(count), 0) * side);
  let y = (h / 2 - 4 - free / 2) * (up < 0 ? 1 : -1);
  layers.forEach((layer, number) => {
    const count = counts[number];
    const columns = Math.min(count, Math.max(1, Math.floor((w - 8) / side)));
    const lines = linesOf(count);
    const ordered = listed.layers.map((each, at) => (each === layer ? at : -1)).filter((at) => at >= 0);
    ordered.forEach((at, place) => {
      const column = place % columns;
      const line = Math.floor(place / columns);
      found[at] = { x: (column - (columns - 1) / 2) * side, y: up < 0 ? y - (lines - line - 0.5) * side : y + (line + 0.5) * side, s: side * 0.86 };
    });
    y += (up < 0 ? -1 : 1) * (lines * side + 5);
  });
  return found;
}

/** The largest side with which all layers fit. */
function bestSide(counts, wide, high) {
  for (let side = 16; side > 0.5; side -= 0.25) {
    const columns = Math.floor(wide / side);
    if (columns && counts.reduce((sum, count) => sum + Math.ceil(count / columns), 0) * side <= high) return side;
  }
  return 0.5;
}
