/** The overview: what is slow, where, since when, whose traffic, and whether the data can be trusted. */

import { h, fill } from "../lib/dom.js";
import { link, param, set } from "../lib/address.js";
import { path } from "../lib/api.js";
import { exports } from "../lib/export.js";
import { duration, ms, percent, queueName, si } from "../lib/format.js";
import { watch } from "../lib/live.js";
import { empty, figures, noReports, panel, tabs } from "../lib/panel.js";
import { legend, lineChart } from "../charts/line.js";
import { heatChart, heatScale } from "../charts/heat.js";
import { alarmPanel } from "./overview/alarms.js";
import { eventPanel } from "./overview/events.js";
import { pathPanel } from "./overview/path.js";
import { contributorPanel, flowPanel, hopPanel, lossPanel } from "./overview/tables.js";

export const title = "Overview";
const RATES = [["reports", "Reports", "--s1"], ["events", "Events", "--s3"]];
const LOSSES = [["lost", "Lost (sequence gaps)", "--s4"], ["dropped", "Dropped by the kernel", "--s2"], ["rejected", "Rejected", "--s5"], ["duplicate", "Duplicate", "--s6"]];
const STRIPS = { queues: "Queues", buffers: "Buffers", links: "Links" };

export function show(place) {
  const first = h("div", { hidden: true });
  const numbers = figures();
  const alarms = alarmPanel();
  const rate = chartPanel("Reports and events", "per second", RATES);
  const loss = chartPanel("Reports lost", "per second", LOSSES);
  const hot = hotPanel();
  const events = eventPanel();
  const flowPath = pathPanel();
  const contributors = contributorPanel();
  const flows = flowPanel();
  const hops = hopPanel();
  const losses = lossPanel();
  const grid = h("div", { class: "grid", hidden: true },
    at(alarms.element, "w8"), at(events.element, "w4 tall"), at(hot.element, "w8"), at(losses.element, "w4"), at(rate.element, "w4"), at(loss.element, "w4"),
    flowPath.element, at(flows.element, "w6"), at(hops.element, "w6"), contributors.element);
  fill(place, first, numbers.element, grid);

  const stop = watch(path("/overview", {}, { scope: true }), (data, status) => {
    if (status !== 200) return;
    const silent = !Number(data.totals.received) && !Number(data.totals.rejected) && !Number(data.totals.kernel_drops);
    first.hidden = !silent;
    grid.hidden = silent;
    if (silent) return void fill(first, nothingYet(data));
    numbers.update(figuresOf(data));
    for (const each of [rate, loss, hot, events, flowPath, contributors, flows, hops, losses]) each.update(data);
  });
  return { end: () => [stop, alarms.end, rate.end, loss.end].forEach((each) => each()) };
}

function at(element, classes) {
  element.className += ` ${classes}`;
  return element;
}

function nothingYet(data) {
  if (!data.totals.workers && data.takes_labels) {
    return empty("This collector receives labels, not reports.", "The Labels page shows their coverage and age.");
  }
  if (!data.totals.workers) return empty("No collector is running here.", "History can still be queried. Start a collector:", "hopscope collect");
  return noReports("No report has arrived yet.", "The collector is listening (System shows where). Point a switch at it, or send simulated reports:");
}

function figuresOf({ totals, unit }) {
  const share = (part, of) => (Number(of) ? percent(Number(part) / Number(of)) : "0 %");
  const plural = unit === "packet" ? "Packets" : "Reports";
  return [
    { key: "received", title: plural, value: si(totals.received_per_second), unit: "/s", note: `${si(totals.received)} total` },
    { key: "lost", title: "Reports lost", value: si(totals.lost_per_second), unit: "/s", note: `${totals.lost_at_most ? "at most " : ""}${si(totals.lost)} total, ${share(totals.lost, Number(totals.lost) + Number(totals.received))}${Number(totals.moved) ? `; ${si(totals.moved)} more reached other members` : ""}`,
      mood: totals.lost_per_second ? "bad" : "", href: link("/system", { part: "sources" }) },
    { key: "rejected", title: `${plural} rejected`, value: si(totals.rejected_per_second), unit: "/s", note: `${si(totals.rejected)} total`, mood: totals.rejected_per_second ? "warn" : "",
      href: link("/system", { part: "counters", q: "rejected" }) },
    { key: "kernel", title: "Kernel drops", value: si(totals.kernel_drops), note: "socket buffer full", mood: Number(totals.kernel_drops) ? "bad" : "",
      href: link("/system", { part: "counters", q: "kernel" }) },
    { key: "dropped", title: "Packets dropped", value: si(totals.packets_dropped), note: "by switches", mood: Number(totals.packets_dropped) ? "bad" : "", href: link("/events", { kind: "drop" }) },
    { key: "events", title: "Events", value: si(totals.events_per_second), unit: "/s", note: `${si(totals.events)} total`, href: link("/events") },
    { key: "flows", title: "Live flows", value: si(totals.flows), note: `${totals.switches} switch${totals.switches === 1 ? "" : "es"}`, href: link("/flows") },
    { key: "sources", title: "Sources", value: si(totals.sources), note: totals.silent_sources ? `${totals.silent_sources} silent` : "all reporting", mood: totals.silent_sources ? "warn" : "",
      href: link("/system", { part: "sources" }) },
    { key: "worker", title: totals.workers === 1 ? "Worker busy" : `${totals.workers} workers busy`, value: percent(totals.busy_ratio), note: totals.ns_per_report ? `${duration(totals.ns_per_report)} per ${unit}` : "idle",
      mood: totals.busy_ratio > 0.9 ? "warn" : "", href: link("/system") },
  ];
}

function chartPanel(name, note, lines) {
  const chart = lineChart({ label: `${name} ${note}`, height: 122, sync: "overview" });
  const box = panel(name, { note, tools: exports(name.toLowerCase().replaceAll(" ", "-"), { table: chart.export, png: chart.png }) });
  fill(box.body, chart.element, legend(lines.map(([, title, colour]) => ({ name: title, colour }))));
  return {
    element: box.element,
    end: chart.end,
    update({ time, points }) {
      const now = Math.floor(ms(time) / 1000) * 1000;
      const series = lines.map(([field, title, colour]) => ({ name: title, colour, fill: lines.length < 3,
        points: points[field].map((value, index) => [now - (points[field].length - 1 - index) * 1000, value]) }));
      chart.set({ series, from: now - 179_000, to: now });
    },
  };
}

function hotPanel() {
  let which = STRIPS[param("hot")] ? param("hot") : "queues";
  let newest = null;
  const chart = heatChart({ label: "Highest value of each half second of the last minute, by place", onRow: (row) => location.assign(row.href) });
  const scale = h("div");
  const none = h("div", { hidden: true });
  const choice = tabs("Which places", Object.entries(STRIPS), which, (name) => {
    which = name;
    set({ hot: name === "queues" ? null : name });
    draw();
  });
  const box = panel("Busiest places", { note: "peaks of the last minute, in the switches' own units", tools: [choice.element, exports("busiest-places", { table: chart.export, png: chart.png })] });
  fill(box.body, chart.element, none, scale);

  function draw() {
    if (!newest) return;
    const rows = newest[which].map((each) => ({
      key: `${each.node.id}/${each.port?.id}/${each.queue}`, values: each.values, limit: each.limit, alarm: each.alarm,
      label: `${each.node.name ?? each.node.id}${each.port ? ` · ${each.port.name ?? `port ${each.port.id}`}` : ""}${queueName(each.queue, which === "buffers" ? "buffer_occupancy" : null)}`,
      href: each.port ? link(["ports", each.node.name ?? each.node.id, each.port.name ?? each.port.id])
        : link("/ports", which === "buffers" ? { metric: "buffer_occupancy", node: each.node.name ?? each.node.id } : {}),
    }));
    const to = ms(newest.time);
    chart.element.hidden = scale.hidden = !rows.length;
    none.hidden = rows.length > 0;
    if (!rows.length) return void fill(none, empty(`All ${which} were ${which === "links" ? "idle" : "empty"} during the last ${newest.followed_seconds < 60 ? `${Math.round(newest.followed_seconds)} s` : "minute"}.`));
    chart.set({ rows, from: to - 60_000, to });
    const limits = new Set(rows.map((each) => each.limit));
    fill(scale, heatScale(limits.size === 1 ? [...limits][0] : null, Math.max(...rows.flatMap((each) => each.values)), null));
  }
  return { element: box.element, update: (data) => {
    newest = data;
    const seconds = Math.min(60, Math.round(data.followed_seconds));
    box.note(`peaks of the last ${seconds < 60 ? `${seconds} s` : "minute"}, in the switches' own units`);
    draw();
  } };
}
