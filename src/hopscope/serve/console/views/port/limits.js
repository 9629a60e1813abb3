/** Limits in force at a switch. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { amount, words } from "../../lib/format.js";
import { panel, trouble } from "../../lib/panel.js";
import { repeat } from "../../lib/range_query.js";

const METRICS = ["hop_latency", "queue_occupancy", "link_utilization", "buffer_occupancy"];
const NAMES = ["change", "raise_above", "clear_below"];

/** Limits of a metric at a switch, and the names of those that are its own. */
export function limitsAt(limits, metric, node) {
  const own = limits.switches[String(node)]?.[metric] ?? {};
  return { values: { ...limits.general[metric], ...own }, own: new Set(Object.keys(own)) };
}

export function limitPanel(node) {
  const box = panel("Limits in force", { note: "at this switch", href: link("/limits", { node: node.name ?? node.id }) });
  const unit = (metric) => (metric === "hop_latency" ? "ns" : null);
  const draw = (limits) => {
    const shown = METRICS.filter((metric) => limits.general[metric]);
    fill(box.body, h("table", { class: "table" }, h("caption", { class: "sr" }, "Limits in force"),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Metric"), ["T", "Raise", "Clear"].map((text) => h("th", { class: "n", scope: "col" }, text)))),
      h("tbody", null, shown.map((metric) => {
        const { values, own } = limitsAt(limits, metric, node.id);
        return h("tr", null, h("td", null, h("a", { href: link("/limits", { metric, node: node.name ?? node.id }) }, words(metric))),
          NAMES.map((name) => h("td", { class: `n ${own.has(name) ? "own" : ""}`, title: own.has(name) ? "Set for this switch" : "Same for all switches" }, values[name] === null ? "never" : amount(values[name], unit(metric)))));
      }))));
  };
  const end = repeat(path("/limits"), 15, (data, error) => (error ? fill(box.body, trouble(error)) : draw(data)));
  return { element: box.element, end };
}
