/** Light or dark, and the colours for canvases. */

const changed = new EventTarget();
let colours = null;

/** "light", "dark" or "" (as the system). */
function theme() {
  return localStorage.getItem("hopscope-theme") ?? "";
}

export function setTheme(name) {
  if (name) localStorage.setItem("hopscope-theme", name);
  else localStorage.removeItem("hopscope-theme");
  apply();
}

/** Whether the dark theme is in use. */
export function isDark() {
  return theme() ? theme() === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Call `on` when colours change; returns a function that stops it. */
export function followTheme(on) {
  changed.addEventListener("change", on);
  return () => changed.removeEventListener("change", on);
}

/** Value of a colour token, as "--s1": canvases cannot use CSS variables. */
export function colour(name) {
  colours ??= new Map();
  if (!colours.has(name)) {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    colours.set(name, getComputedStyle(probe).color);
    probe.remove();
  }
  return colours.get(name);
}

/** Colour of a value: h1 to h5 up to the limit, h6 to h8 above it; without a limit up to `top`. */
export function heat(value, limit, top) {
  return colour(`--h${level(value, limit, top)}`);
}

/** 0 for nothing, 1 to 5 up to the limit, 6 to 8 above it; without a limit 1 to 8 up to `top`. */
export function level(value, limit, top) {
  if (!(value > 0)) return 0;
  if (limit && value > limit) return Math.min(8, 6 + Math.floor((3 * (value - limit)) / Math.max(1, top - limit)));
  const [calm, end] = limit ? [5, limit] : [8, top];
  return Math.min(calm, 1 + Math.floor(calm * Math.pow(value / Math.max(1, end), 0.75)));
}

function apply() {
  if (theme()) document.documentElement.dataset.theme = theme();
  else delete document.documentElement.dataset.theme;
  colours = null;
  changed.dispatchEvent(new Event("change"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
apply();
