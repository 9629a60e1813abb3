/** Destinations: whether each accepts data, how many events wait for it, and how many were lost. */

import { h, fill } from "../../lib/dom.js";
import { exports } from "../../lib/export.js";
import { ago, bytes, si, words } from "../../lib/format.js";
import { empty, panel } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

const WHY = {
  queue_full: "more than queue_rounds rounds were waiting", failed: "the destination rejected them",
  expired: "gone from history before they were sent", stopped: "not yet sent when the collector stopped",
};
const lost = (each) => Object.values(each.lost).reduce((sum, count) => sum + Number(count), 0);
const accepts = (each) => (each.ok ? "accepting" : each.since ? "failing" : "not reached yet");

export function destinationPart() {
  const rows = table({
    label: "Destinations", key: (each) => each.name, mood: (each) => (each.ok ? "" : "bad"), sort: "name",
    empty: empty("Nothing is exported.", "Events and metrics can go to Kafka, databases, Prometheus, OpenTelemetry, IPFIX, alerts and more:", "[export.feed]\nkind = \"nats\"\nservers = [\"nats://127.0.0.1:4222\"]"),
    columns: [
      { name: "name", title: "Destination", cell: (each) => h("b", null, each.name), value: (each) => each.name },
      { name: "state", title: "State", cell: (each) => h("span", { class: `chip dot ${each.ok ? "good" : "bad"}` }, accepts(each)), value: accepts },
      { name: "since", title: "Since", cell: (each) => (each.since ? ago(each.since) : "–"), value: (each) => each.since },
      { name: "place", title: "Where", cell: (each) => h("code", null, each.place), value: (each) => each.place },
      { name: "waiting", title: "Waiting", number: true, help: "Events in history that it has not confirmed", cell: (each) => (each.waiting_events === null ? "–" : si(each.waiting_events)), value: (each) => Number(each.waiting_events) },
      { name: "sent", title: "Batches", number: true, cell: (each) => si(each.counters.sent_total), value: (each) => Number(each.counters.sent_total) },
      { name: "events", title: "Events", number: true, cell: (each) => si(each.counters.events_total), value: (each) => Number(each.counters.events_total) },
      { name: "bytes", title: "Bytes", number: true, cell: (each) => bytes(each.counters.bytes_total), value: (each) => Number(each.counters.bytes_total) },
      { name: "retried", title: "Retries", number: true, cell: (each) => si(each.counters.retried_total), value: (each) => Number(each.counters.retried_total) },
      { name: "lost", title: "Lost", number: true, value: lost, cell: (each) => h("span", { class: lost(each) ? "bad" : null, title: Object.keys(each.lost).map((name) => WHY[name]).join("; ") }, lost(each) ? `${si(lost(each))} (${Object.keys(each.lost).map(words).join(", ")})` : "0") },
      { name: "problem", title: "Problem, and what to do", cell: (each) => (each.ok ? "–" : h("span", { class: "long" }, each.problem || "no answer yet", h("b", null, ". Check its address and the service there; events wait in history meanwhile."))), value: (each) => each.problem },
    ],
  });
  const box = panel("Destinations", { note: "events for a destination that does not answer wait in history, up to history.keep_days", tools: exports("destinations", { table: rows.export }) });
  fill(box.body, rows.element);
  return { elements: [box.element], update: (data) => rows.update(data.destinations) };
}
