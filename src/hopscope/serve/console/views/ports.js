/** Ports and queues: a map of the places with the highest values over time, and bursts. */

import { h, fill } from "../lib/dom.js";
import { go, link, param, set } from "../lib/address.js";
import { exports } from "../lib/export.js";
import { amount, clock, ms, queueName, si, words } from "../lib/format.js";
import { empty, panel, tabs, trouble } from "../lib/panel.js";
import { choose, range } from "../lib/range.js";
import { keys } from "../lib/keys.js";
import { heatChart, heatScale } from "../charts/heat.js";
import { burstPanel } from "./ports/bursts.js";
import { follow } from "../lib/range_query.js";

export const title = "Ports and queues";
const METRICS = [["queue_occupancy", "Queue"], ["hop_latency", "Hop latency"], ["link_utilization", "Link"], ["buffer_occupancy", "Buffer"], ["queue_congestion", "Congestion"],
  ["drop", "Drops"], ["label_latency", "Label latency"], ["label_occupancy", "Label queue"], ["label_age", "Label age"]];
const SORTS = [["peak", "Highest first"], ["events", "Most events first"], ["place", "By switch and port"]];
const ROWS = [20, 40, 80];

/** The choices in the address. */
function chosen() {
  const one = (name, allowed, other) => (allowed.includes(param(name)) ? param(name) : other);
  return {
    metric: one("metric", METRICS.map(([name]) => name), "queue_occupancy"),
    sort: one("sort", SORTS.map(([name]) => name), "peak"),
    rows: Number(one("rows", ROWS.map(String), "20")),
    node: param("node"),
  };
}

export function show(place) {
  const choice = tabs("Metric", METRICS, chosen().metric, (metric) => set({ metric: metric === "queue_occupancy" ? null : metric }, true));
  const sort = select("Order", SORTS, chosen().sort, (value) => set({ sort: value === "peak" ? null : value }));
  const rows = select("Places", ROWS.map((count) => [String(count), String(count)]), String(chosen().rows), (value) => set({ rows: value === "20" ? null : value }));
  const node = h("input", { type: "search", placeholder: "all switches", "aria-label": "Switch, by name or number", value: chosen().node, onchange: () => set({ node: node.value.trim() || null }) });
  const heat = heatPanel();
  const bursts = burstPanel();
  fill(place, h("div", { class: "choices" }, choice.element, sort.element, rows.element, h("label", null, "Switch", node)), heat.element, bursts.element);

  let end = () => {};
  const begin = () => {
    end();
    const now = chosen();
    choice.draw(now.metric);
    sort.set(now.sort);
    rows.set(String(now.rows));
    node.value = now.node;
    const ends = [heat.begin(now), bursts.begin(now)];
    end = () => ends.forEach((each) => each());
  };
  begin();
  const step = (by) => {
    const at = METRICS.findIndex(([name]) => name === chosen().metric);
    const [metric] = METRICS[(at + by + METRICS.length) % METRICS.length];
    set({ metric: metric === "queue_occupancy" ? null : metric });
  };
  const unkey = keys({
    "]": { text: "Next metric", run: () => step(1) },
    "[": { text: "Previous metric", run: () => step(-1) },
    b: { text: "Go to the bursts", run: () => bursts.element.querySelector("[tabindex='0']")?.focus() },
  });
  return { end: () => [end, unkey].forEach((each) => each()), change: begin };
}

function select(label, choices, value, on) {
  const field = h("select", { onchange: () => on(field.value) }, choices.map(([name, text]) => h("option", { value: name }, text)));
  field.value = value;
  return { element: h("label", null, label, field), set: (to) => (field.value = to) };
}

function heatPanel() {
  const chart = heatChart({
    label: "Highest value by place and time; arrow keys move between cells, Enter opens the port, dragging selects a time range",
    left: 230,
    onRow: (row) => go(row.href),
    onRange: (from, to) => choose(Math.floor(from), Math.ceil(to)),
  });
  const scale = h("div");
  const message = h("div", { hidden: true });
  let answer = null;
  const box = panel("Places × time", { tools: [exports("ports", { table: chart.export, json: () => answer, png: chart.png })] });
  fill(box.body, chart.element, message, scale);

  function draw(found, metric) {
    answer = found;
    const rows = found.items.map((each) => ({
      key: keyOf(each),
      label: `${each.node.name ?? each.node.id}${each.port ? ` · ${each.port.name ?? `port ${each.port.id}`}` : ""}${queueName(each.queue, metric)}`,
      href: each.port ? link(["ports", each.node.name ?? each.node.id, each.port.name ?? each.port.id], { metric, queue: each.queue }) : link("/fabric", { selected: String(each.node.id) }),
      values: each.values.map((value) => (value === null ? null : Number(value))),
      limit: found.raise_above === null ? null : Number(found.raise_above),
      alarm: found.raise_above !== null && Number(each.peak) > Number(found.raise_above),
    }));
    chart.element.hidden = scale.hidden = !rows.length;
    message.hidden = rows.length > 0;
    const shown = rows.length < found.total ? `${rows.length} of ${si(found.total)} places` : `${rows.length} places`;
    box.note(`${shown} · ${words(metric)}, highest in each ${span(found.bucket_ns)}${unitNote(found.unit, metric)}${found.change ? ` · empty cell: within ±${amount(found.change, found.unit)} of the previous value` : ""}`);
    if (!rows.length) return void fill(message, nothing(metric));
    chart.set({ rows, from: ms(found.since), to: ms(found.until), unit: found.unit });
    fill(scale, heatScale(found.raise_above === null ? null : Number(found.raise_above), Math.max(...found.items.map((each) => Number(each.peak))), found.unit));
  }

  return {
    element: box.element,
    begin({ metric, sort, rows, node }) {
      const { from, to } = range();
      const buckets = to - from <= 120_000 ? 60 : rows > 40 ? 90 : 120;
      return follow("/heatmap", { metric, sort, rows, buckets, node: node || null }, (data, error) => {
        if (!error) return draw(data, metric);
        chart.element.hidden = scale.hidden = true;
        message.hidden = false;
        fill(message, trouble(error));
      });
    },
  };
}

const keyOf = (each) => `${each.node?.id}/${each.port?.id}/${each.queue}`;

function span(ns) {
  const seconds = ns / 1e9;
  return seconds < 1 ? `${seconds * 1000} ms` : seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

function unitNote(unit, metric) {
  return unit || metric === "drop" ? "" : ", in the switches' own units";
}

function nothing(metric) {
  const when = range();
  const where = when.live ? "in this time range" : `between ${clock(when.from, 0)} and ${clock(when.to, 0)}`;
  if (metric.startsWith("label_")) return empty(`No label has arrived ${where}.`, "To receive labels, set:", "[label]\nlisten = \"127.0.0.1:7254\"");
  if (metric === "drop") return empty(`No drop was reported ${where}.`);
  return empty(`No value above 0 ${where}.`, "Choose a longer time range or another metric. The page of a flow shows what its switches report.");
}
