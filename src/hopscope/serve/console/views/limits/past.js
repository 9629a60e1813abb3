/** Past changes of limits, from the audit. */

import { h, fill } from "../../lib/dom.js";
import { get, path } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { amount, clock, moment, words } from "../../lib/format.js";
import { empty, panel, trouble } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

export const NAMES = [["change", "T (change)"], ["raise_above", "Raise above"], ["clear_below", "Clear below"]];
export const unitOf = (metric) => (metric.endsWith("_latency") ? "ns" : null);
/** A limit in its unit. */
export const text = (value, unit) => (value === null ? "never" : amount(value, unit));

/** @param {Map<string, string>} names of switches by id */
export function pastChanges(names) {
  const rows = table({
    label: "Past changes", key: (each) => `${each.entry.id}/${each.node}/${each.metric}/${each.limit}`, empty: empty("No limit has been changed yet."),
    columns: [
      { name: "time", title: "When", sorts: false, cell: ({ entry }) => h("time", { datetime: entry.time, title: moment(entry.time) }, clock(entry.time, 0)), value: ({ entry }) => entry.time },
      { name: "who", title: "Who", sorts: false, cell: ({ entry }) => [entry.who, entry.address].filter(Boolean).join(" from ") },
      { name: "metric", title: "Metric", sorts: false, cell: (each) => words(each.metric), value: (each) => each.metric },
      { name: "switch", title: "Switch", sorts: false, cell: (each) => (each.node === null ? "all" : names.get(each.node) ?? each.node), value: (each) => each.node },
      { name: "limit", title: "Limit", sorts: false, cell: (each) => Object.fromEntries(NAMES)[each.limit] ?? each.limit, value: (each) => each.limit },
      { name: "before", title: "From", number: true, sorts: false, cell: (each) => valueText(each, each.before), value: (each) => each.before },
      { name: "after", title: "To", number: true, sorts: false, cell: (each) => valueText(each, each.after), value: (each) => each.after },
    ],
  });
  const box = panel("Past changes", { note: "newest first", tools: [exports("limit-changes", { table: rows.export })] });
  const message = h("div");
  fill(box.body, message, rows.element);
  return { element: box.element, async read() {
    try {
      rows.update((await get(path("/audit", { kind: "limits", limit: 20 }))).items.flatMap(changesOf));
      fill(message);
    } catch (error) {
      fill(message, trouble(error));
    }
  } };
}

/** Each limit that an entry of the audit changed. */
function changesOf(entry) {
  if (entry.kind === "limits.reset") return [{ entry, node: null, metric: "all", limit: "reset to the settings" }];
  const before = limitsOf(entry.before);
  return limitsOf(entry.after).map((each) => ({ entry, ...each,
    before: before.find((one) => one.node === each.node && one.metric === each.metric && one.limit === each.limit)?.value, after: each.value }));
}

function limitsOf(values) {
  const places = [[null, values?.general ?? {}], ...Object.entries(values?.switches ?? {})];
  return places.flatMap(([node, metrics]) => Object.entries(metrics ?? {}).flatMap(([metric, limits]) =>
    Object.entries(limits ?? {}).map(([limit, value]) => ({ node, metric, limit, value }))));
}

function valueText(each, value) {
  if (value === undefined && each.node === null) return "–";
  return value === undefined || value === "general" ? "same as all switches" : text(value, unitOf(each.metric));
}
