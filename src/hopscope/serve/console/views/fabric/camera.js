/** The viewport of the map: pan and zoom by pointer, wheel, pinch and keys. */

const MOST = 60;

/**
 * @param {HTMLCanvasElement} canvas
 * @param {object} on
 * @param {(moving: boolean) => void} on.change
 * @param {(x: number, y: number) => void} on.click
 * @param {(x: number, y: number) => void} on.double
 * @param {() => void} on.settled
 */
export function camera(canvas, on) {
  const view = { k: 1, x: 0, y: 0 };
  const pointers = new Map();
  let moved = 0;
  let settle = 0;
  let size = { width: 1, height: 1 };
  let lastClick = { at: 0, x: 0, y: 0 };

  function clamp() {
    view.k = Math.max(1, Math.min(MOST, view.k));
    const [over, under] = [size.width * 0.5, size.height * 0.5];
    view.x = Math.min(over, Math.max(size.width - view.k * size.width - over, view.x));
    view.y = Math.min(under, Math.max(size.height - view.k * size.height - under, view.y));
    if (view.k === 1) view.x = view.y = 0;
  }

  function changed() {
    clamp();
    on.change(true);
    clearTimeout(settle);
    settle = setTimeout(() => {
      settle = 0;
      on.change(false);
      on.settled();
    }, 140);
  }

  function zoomAt(x, y, factor) {
    const before = view.k;
    view.k = Math.max(1, Math.min(MOST, view.k * factor));
    const ratio = view.k / before;
    view.x = x - (x - view.x) * ratio;
    view.y = y - (y - view.y) * ratio;
    changed();
  }

  const where = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("wheel", (event) => {
    if (view.k === 1 && event.deltaY > 0 && !event.ctrlKey) return; // the page scrolls on
    event.preventDefault();
    const { x, y } = where(event);
    zoomAt(x, y, Math.exp(-Math.max(-80, Math.min(80, event.deltaY * (event.deltaMode ? 24 : 1))) * (event.ctrlKey ? 0.012 : 0.0035)));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, where(event));
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = where(event);
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [, other] = others[0];
      const spread = (point) => Math.max(10, Math.hypot(point.x - other.x, point.y - other.y));
      zoomAt((now.x + other.x) / 2, (now.y + other.y) / 2, spread(now) / spread(before));
      moved = 99;
    } else {
      moved += Math.hypot(now.x - before.x, now.y - before.y);
      if (moved > 4 && view.k > 1) {
        view.x += now.x - before.x;
        view.y += now.y - before.y;
        changed();
      }
    }
    pointers.set(event.pointerId, now);
  });
  canvas.addEventListener("pointerup", (event) => {
    const mine = pointers.delete(event.pointerId);
    if (!mine || pointers.size || moved > 4) return;
    const { x, y } = where(event);
    const again = event.timeStamp - lastClick.at < 350 && Math.hypot(x - lastClick.x, y - lastClick.y) < 8;
    lastClick = { at: again ? 0 : event.timeStamp, x, y };
    if (again) on.double(x, y);
    else on.click(x, y);
  });
  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));

  return {
    view,
    /** Whether a pointer is down and has moved. */
    dragging: () => pointers.size > 0 && moved > 4,
    resize(given) {
      const [fx, fy] = [(size.width / 2 - view.x) / view.k / size.width, (size.height / 2 - view.y) / view.k / size.height];
      size = { ...given };
      view.x = size.width / 2 - fx * view.k * size.width;
      view.y = size.height / 2 - fy * view.k * size.height;
      clamp();
    },
    zoom: (factor) => zoomAt(size.width / 2, size.height / 2, factor),
    pan(dx, dy) {
      view.x += dx;
      view.y += dy;
      changed();
    },
    fit() {
      Object.assign(view, { k: 1, x: 0, y: 0 });
      changed();
    },
    /** Scroll a place into view if it is not visible. */
    reveal(x, y) {
      const [sx, sy] = [x * view.k + view.x, y * view.k + view.y];
      if (sx > 20 && sy > 20 && sx < size.width - 20 && sy < size.height - 20) return;
      view.x += size.width / 2 - sx;
      view.y += size.height / 2 - sy;
      changed();
    },
    /** Whether the map is moving; the address is updated once it stops. */
    moves: () => settle !== 0,
    /** As text for the address: zoom and centre, as shares of the map; "" if all of it is shown. */
    text() {
      if (view.k === 1) return "";
      const share = (length, shift) => ((length / 2 - shift) / view.k / length).toFixed(3);
      return `${view.k.toFixed(2)},${share(size.width, view.x)},${share(size.height, view.y)}`;
    },
    read(text) {
      const [k, fx, fy] = (text ?? "").split(",").map(Number);
      if (!(k >= 1) || !Number.isFinite(fx) || !Number.isFinite(fy)) return void Object.assign(view, { k: 1, x: 0, y: 0 });
      Object.assign(view, { k, x: size.width / 2 - fx * k * size.width, y: size.height / 2 - fy * k * size.height });
      clamp();
    },
  };
}
