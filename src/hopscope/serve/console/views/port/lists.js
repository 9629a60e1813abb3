/** Lists of a port: its queues, the flows through it, its events. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { eventMood, eventText } from "../../lib/event_text.js";
import { exports } from "../../lib/export.js";
import { ago, amount, clock, duration, flowText, si, words } from "../../lib/format.js";
import { eventLink } from "../../lib/members.js";
import { empty, panel, trouble } from "../../lib/panel.js";
import { table } from "../../lib/table.js";
import { follow, repeat } from "../../lib/range_query.js";

export function queuePanel() {
  const rows = table({
    label: "Queues", key: (each) => String(each.id), mood: (each) => (each.alarms.length ? "bad" : ""), sort: "id",
    href: (each) => link(location.pathname, { queue: each.id }),
    empty: empty("No queue of this port has been reported."),
    columns: [
      { name: "id", title: "Queue", number: true, cell: (each) => String(each.id), value: (each) => each.id },
      { name: "occupancy", title: "Now", number: true, cell: (each) => amount(each.occupancy, null), value: (each) => each.occupancy },
      { name: "highest", title: "Highest", number: true, help: "Since the last push", cell: (each) => amount(each.highest_occupancy, null), value: (each) => each.highest_occupancy },
      { name: "samples", title: "Reports", number: true, cell: (each) => si(each.samples), value: (each) => Number(each.samples) },
      { name: "alarms", title: "Alarms", cell: (each) => each.alarms.map(words).join(", ") },
      { name: "seen", title: "Last", cell: (each) => ago(each.last_seen), value: (each) => each.last_seen },
    ],
  });
  const box = panel("Queues", { note: "now, in the switch's own unit" });
  fill(box.body, rows.element);
  return { element: box.element, update: rows.update };
}

export function flowPanel(node, port) {
  const search = `node:${node.id} egress:${port.id}`;
  const rows = table({
    label: "Flows through this port", key: (each) => each.flow.id, href: (each) => link(["flows", each.flow.id]), mood: (each) => (each.alarms.length ? "bad" : ""),
    empty: empty("No live flow leaves by this port."),
    columns: [
      { name: "flow", title: "Flow", sorts: false, cell: (each) => h("a", { href: link(["flows", each.flow.id]) }, flowText(each.flow)), value: (each) => flowText(each.flow) },
      { name: "latency", title: "Latency", number: true, ns: true, help: "End to end, latest", cell: (each) => (each.latency_ns === null ? "–" : duration(each.latency_ns)), value: (each) => (each.latency_ns === null ? null : Number(each.latency_ns)) },
      { name: "mean", title: "Mean", number: true, ns: true, cell: (each) => (each.latency_mean_ns === null ? "–" : duration(each.latency_mean_ns)), value: (each) => each.latency_mean_ns },
      { name: "packets", title: "Reports", number: true, cell: (each) => si(each.packets), value: (each) => Number(each.packets) },
      { name: "seen", title: "Last", cell: (each) => ago(each.last_seen), value: (each) => each.last_seen },
    ],
  });
  const box = panel("Flows through this port", { href: link("/flows", { q: search }), tools: exports(`flows-${node.id}-${port.id}`, { table: rows.export }) });
  const message = h("div");
  fill(box.body, message, rows.element);
  return {
    element: box.element,
    begin: () => repeat(path("/flows", { q: search, sort: "latency", limit: 12 }, { scope: true }), 5, (data, error) => {
      fill(message, error ? trouble(error) : "");
      if (error) return;
      rows.update(data.items);
      box.note(`${data.items.length < data.total ? `${data.items.length} of ${si(data.total)}` : data.total} live, by latest latency`);
    }),
  };
}

export function eventPanel(node, port) {
  const rows = table({
    label: "Events at this port", key: (each) => (each.member ?? "") + each.id, href: (each) => eventLink(each), mood: eventMood,
    empty: empty("No event at this port in this time range."),
    columns: [
      { name: "time", title: "Time", sorts: false, cell: (each) => h("time", { datetime: each.time }, clock(each.time, 3)), value: (each) => each.time },
      { name: "event", title: "Event", sorts: false, cell: (each) => h("span", { class: "event-line" }, eventText({ ...each, node: null })), value: (each) => each.kind },
    ],
  });
  const box = panel("Events here", { note: "newest first", href: link("/events", { node: node.name ?? node.id, port: port.id }), tools: exports(`events-${node.id}-${port.id}`, { table: rows.export }) });
  const message = h("div");
  fill(box.body, message, h("div", { class: "scroll" }, rows.element));
  return {
    element: box.element,
    begin: () => follow("/events", { node: node.id, port: port.id, kind: "raised,cleared,threshold,drop,queue_report,change", limit: 40 }, (data, error) => {
      fill(message, error ? trouble(error) : "");
      if (!error) rows.update(data.items);
    }),
  };
}
