/** The time range of a view: `from` and `to` of its address. Without them the view is live. */

import { h, fill } from "./dom.js";
import { here, set } from "./address.js";
import { behindUtc, clock, ms, zone } from "./format.js";

const UNITS = { s: 1, m: 60, h: 3600, d: 86_400 };
const PRESETS = ["-5m", "-15m", "-1h", "-6h", "-1d", "-7d"];

/** Milliseconds of "-15m", "now" or RFC 3339; null for anything else. */
export function moment(text, nowMs = Date.now()) {
  if (text === "now") return nowMs;
  const found = /^-(\d+)([smhd])$/.exec(text ?? "");
  if (found) return nowMs - Number(found[1]) * UNITS[found[2]] * 1000;
  const at = text ? ms(text) : NaN;
  return Number.isFinite(at) ? at : null;
}

/** RFC 3339 text of milliseconds, for the API. */
export function iso(at) {
  return new Date(at).toISOString();
}

/**
 * The range of the address in milliseconds. `live`: its end is now. `seconds`: the length of a live view without a
 * range.
 */
export function range(seconds = 900) {
  const { query } = here();
  const now = Date.now();
  const to = moment(query.get("to") ?? "now", now) ?? now;
  const from = moment(query.get("from") ?? "", now) ?? to - seconds * 1000;
  const live = (query.get("to") ?? "now") === "now";
  return { from: Math.min(from, to - 1), to, live, chosen: query.has("from") || query.has("to") };
}

/** Choose a range: milliseconds, a preset as "-15m", or null for live. */
export function choose(from, to = null) {
  const text = (at) => (typeof at === "number" ? iso(at) : at);
  set({ from: text(from), to: to === null ? null : text(to) }, true);
}

/** The control in the bar; `update` shows the range of the address. */
export function rangeControl() {
  const button = h("button", { class: "button", type: "button", title: "Time range", "aria-haspopup": "true", "aria-expanded": "false" }, "Live");
  const menu = h("div", { class: "menu", hidden: true });
  const element = h("div", { class: "range" }, button, menu);
  const open = (on) => {
    menu.hidden = !on;
    button.setAttribute("aria-expanded", String(on));
    if (on) draw();
  };
  button.addEventListener("click", () => open(menu.hidden));
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !menu.hidden) {
      open(false);
      button.focus();
      event.stopPropagation();
    }
  });
  document.addEventListener("pointerdown", (event) => {
    if (!element.contains(event.target)) open(false);
  });

  function draw() {
    const { from, to } = range();
    const field = (label, at) => {
      const input = h("input", { type: "datetime-local", step: 1, value: local(at) });
      const shown = input.value;
      const chosen = () => (input.value === shown ? [at] : times(input.value));
      return [chosen, h("label", { class: "field" }, label, input)];
    };
    const [first, firstLabel] = field("From", from);
    const [last, lastLabel] = field("To", to);
    const pick = (preset) => () => {
      choose(preset);
      open(false);
    };
    fill(menu,
      h("div", { class: "presets" },
        h("button", { class: "button", type: "button", onclick: pick(null) }, "Live"),
        PRESETS.map((each) => h("button", { class: "button", type: "button", onclick: pick(each) }, `Last ${each.slice(1)}`))),
      firstLabel, lastLabel,
      h("button", { class: "button main", type: "button", onclick: () => {
        const [a, b] = [first()[0], last().at(-1)];  // the widest reading of ambiguous times
        if (!(a < b)) return;
        choose(a, b);
        open(false);
      } }, "Show this range"));
  }

  return {
    element,
    update() {
      const { query } = here();
      const { from, to, live, chosen } = range();
      const preset = /^-\d+[smhd]$/.exec(query.get("from") ?? "") && live;
      button.textContent = !chosen ? "Live" : preset ? `Last ${query.get("from").slice(1)}` : `${clock(from, 0)} – ${live ? "now" : clock(to, 0)}`;
    },
  };
}

const DAY_MS = 86_400e3;

/** The value of a field for a time. */
function local(at) {
  return new Date(at - behindUtc(at)).toISOString().slice(0, 19);
}

/** The times that a field's value can mean: two in the hour that the end of summer time repeats. */
function times(text) {
  const at = Date.parse(zone() === "utc" ? text + "Z" : text);
  if (!Number.isFinite(at)) return [];
  const later = at + behindUtc(at + DAY_MS) - behindUtc(at - DAY_MS);
  return later > at && local(later) === local(at) ? [at, later] : [at];
}
