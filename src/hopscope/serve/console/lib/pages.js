/** The pages of the console: addresses, names in the rail, keys, and the modules that show them. */

import { svg } from "./dom.js";

/**
 * @typedef {object} Page
 * @property {RegExp} address
 * @property {string} [rail] name in the rail; pages without one belong to the page before them
 * @property {string} [to] where the rail leads
 * @property {string} [key] key after g
 * @property {string} [icon] path of a 16 × 16 drawing
 * @property {string} [alone] says which parts of the page show one member only, even if the address asks for all members
 * @property {() => Promise<any>} load the view: exports `title`, and `show(place, address)`, which returns
 *   `{end(), change(address)}`: `end` when it is left, `change` (optional) when only the query has changed
 */

/** @type {Page[]} */
export const PAGES = [
  { address: /^\/$/, rail: "Overview", to: "/", key: "o", icon: "M2 9h4V2H2zm0 5h4v-3H2zm6 0h6V8H8zm0-12v4h6V2z", load: () => import("../views/overview.js") },
  { address: /^\/fabric$/, rail: "Fabric", to: "/fabric", key: "m", icon: "M3 4h2v2H3zm8 0h2v2h-2zM3 11h2v2H3zm8 0h2v2h-2zM4 6v5M12 6v5M5 6l6 5M11 6l-6 5", load: () => import("../views/fabric.js") },
  { address: /^\/flows$/, rail: "Flows", to: "/flows", key: "f", icon: "M2 5c4 0 4 6 8 6h4m-3-2 3 2-3 2M2 11c4 0 4-6 8-6h4m-3-2 3 2-3 2", load: () => import("../views/flows.js") },
  { address: /^\/flows\/[^/]+$/, load: () => import("../views/flow.js") },
  { address: /^\/ports$/, rail: "Ports", to: "/ports", key: "p", icon: "M2 4h12M2 8h12M2 12h12M5 3v2M9 7v2M12 11v2", load: () => import("../views/ports.js") },
  { address: /^\/ports\/[^/]+\/[^/]+$/, load: () => import("../views/port.js") },
  { address: /^\/events$/, rail: "Events", to: "/events", key: "e", icon: "M8 2v7M8 12v2", load: () => import("../views/events.js") },
  { address: /^\/events\/[^/]+$/, load: () => import("../views/event.js") },
  { address: /^\/ask$/, rail: "Ask", to: "/ask", key: "a", icon: "M3 3h10v8H7l-3 3v-3H3zM6 6h4M6 8h3", load: () => import("../views/ask.js") },
  { address: /^\/direct(\/.*)?$/, rail: "Direct", to: "/direct", key: "d", alone: "This page shows the stores of this member; a key is looked up at its owners.", icon: "M4 3h8v10H4zM6 5h4M6 8h4M6 11h4", load: () => import("../views/direct.js") },
  { address: /^\/labels$/, rail: "Labels", to: "/labels", key: "l", alone: "Recent coverage and the list of tracked flows are those of this member.", icon: "M2 3h6l6 5-6 5H2zM5 8h.1", load: () => import("../views/labels.js") },
  { address: /^\/sink$/, rail: "Sink", to: "/sink", key: "s", alone: "This page shows this member only.", icon: "M2 3h12l-4 5v5l-4-2V8z", load: () => import("../views/sink.js") },
  { address: /^\/limits$/, rail: "Limits", to: "/limits", key: "t", alone: "Limits are those of this member; the preview counts events of all members.", icon: "M2 11h12M2 6h3m3 0h6M5 4v4M10 9v4", load: () => import("../views/limits.js") },
  { address: /^\/system(\/.*)?$/, rail: "System", to: "/system", key: "y", alone: "This page shows this member only; its sources are those of all members.", icon: "M3 3h10v4H3zM3 9h10v4H3zM5 5h.1M5 11h.1", load: () => import("../views/system.js") },
];

/** The page of a path, and the page of the rail that it belongs to. */
export function pageOf(path) {
  const at = PAGES.findIndex((each) => each.address.test(path));
  if (at < 0) return null;
  let rail = at;
  while (!PAGES[rail].rail) rail -= 1;
  return { page: PAGES[at], rail: PAGES[rail] };
}

/** Drawing of a page. */
export function icon(page) {
  return svg("svg", { viewBox: "0 0 16 16", fill: "none", stroke: "currentColor", "stroke-width": "1.5", "stroke-linecap": "round",
    "stroke-linejoin": "round", "aria-hidden": "true" }, svg("path", { d: page.icon }));
}
