/** Values of a port over time, one chart for each metric, with one crosshair: bounds ±T, limits, alarms as bands. */

import { h, fill } from "../../lib/dom.js";
import { exports } from "../../lib/export.js";
import { amount, ms, si } from "../../lib/format.js";
import { panel, trouble } from "../../lib/panel.js";
import { choose } from "../../lib/range.js";
import { lineChart } from "../../charts/line.js";
import { follow } from "../../lib/range_query.js";

/** Metric, title, colour, and whether it is of one queue. */
const CHARTS = [
  ["hop_latency", "Hop latency", "--s1", false],
  ["queue_occupancy", "Queue occupancy", "--s3", true],
  ["link_utilization", "Link utilisation", "--s5", false],
  ["drop", "Drops", "--s4", false],
  ["label_latency", "Latency from labels", "--s1", false],
  ["label_age", "Age of the newest label", "--s6", false],
];
/** Charts without a value are left out. */
const RARE = new Set(["drop", "label_latency", "label_age"]);
const BUCKETS = 180;
/** A port that has been silent for longer than this has no present value. */
const STALE_MS = 15_000;

export function seriesPanel(node, port, labels) {
  const charts = CHARTS.filter(([metric]) => labels || !metric.startsWith("label_")).map((each) => oneChart(node, port, ...each));
  const legend = h("div", { class: "legend" },
    h("span", null, h("i", { style: { background: "var(--s1)" } }), "highest of each interval"),
    h("span", null, h("i", { style: { background: "var(--s1)", opacity: "0.3", height: "9px" } }), "stored value ± T"),
    h("span", null, h("span", { class: "band-key" }), "alarm"));
  const every = () => {
    const [first, ...others] = charts.filter((each) => !each.element.hidden).map((each) => each.export());
    if (!first) return { names: ["time"], rows: [] };
    return { names: ["time", ...[first, ...others].flatMap((each) => each.names.slice(1))],
      rows: first.rows.map((row, at) => [...row, ...others.flatMap((each) => each.rows[at]?.slice(1) ?? [null])]) };
  };
  const box = panel("Over time", { tools: [exports(`port-${node.id}-${port.id}`, { table: every, json: () => charts.map((each) => each.answer()).filter(Boolean) })] });
  fill(box.body, legend, charts.map((each) => each.element));
  return {
    element: box.element,
    /** Time of the port's last report: its values end there. */
    seen(at) {
      for (const each of charts) each.seen(at);
    },
    begin({ queue }) {
      const ends = charts.map((each) => each.begin(queue));
      return () => ends.forEach((each) => each());
    },
  };
}

function oneChart(node, port, metric, title, colour, ofQueue) {
  const heading = h("small");
  const place = h("div", { class: "chart-wait" });
  const message = h("div", { hidden: true });
  const element = h("div", { hidden: RARE.has(metric) });
  let chart = null;
  let answer = null;
  let lastMs = Infinity;
  const tools = exports(`port-${node.id}-${port.id}-${metric}`, { table: () => chart.export(), json: () => answer, png: () => chart.png() });
  fill(element, h("div", { class: "series-title" }, h("b", null, title), heading, h("span", { class: "grow" }), tools), place, message);

  function draw(found) {
    answer = found;
    const values = found.highest.filter((value) => value !== null);
    element.hidden = RARE.has(metric) && !values.some((value) => Number(value) > 0);
    message.hidden = true;
    place.hidden = false;
    if (!chart) {
      chart = lineChart({ label: `${title} over time; arrow keys move, dragging selects a time range`, unit: found.unit, height: 118, sync: "port", onRange: (from, to) => choose(Math.floor(from), Math.ceil(to)) });
      fill(place, chart.element);
    }
    const peak = values.length ? Math.max(...values.map(Number)) : null;
    const alarms = found.alarm_count ? ` · ${found.alarm_count}${found.truncated ? "+" : ""} alarm${found.alarm_count > 1 ? "s" : ""}` : "";
    const shown = drawn(found, metric, colour, lastMs);
    const held = shown.series[0].points.find(([, value]) => value !== null)?.[1];
    heading.textContent = `${peak === null ? (held === undefined || metric === "drop" ? "no value in this time range" : `no event in this time range · stored ${amount(held, found.unit)}`) : metric === "drop" ? `${si(values.reduce((sum, each) => sum + Number(each), 0))} total` : `peak ${amount(peak, found.unit)}`}`
      + `${found.change === null ? "" : ` · T ${amount(found.change, found.unit)}`}${found.raise_above === null ? "" : ` · limit ${amount(found.raise_above, found.unit)}`}${alarms}`;
    chart.set(shown);
  }

  return {
    element,
    answer: () => answer,
    seen(at) {
      const ended = at < Date.now() - STALE_MS ? at : Infinity;
      if (ended === lastMs) return;
      lastMs = ended;
      if (answer) draw(answer);
    },
    export: () => chart?.export() ?? { names: ["time"], rows: [] },
    begin(queue) {
      const asked = { metric, node: node.id, port: port.id, queue: ofQueue ? queue : null, buckets: BUCKETS };
      const end = follow("/series", asked, (data, error) => {
        if (!error) return draw(data);
        element.hidden = RARE.has(metric);
        place.hidden = true;
        message.hidden = false;
        fill(message, trouble(error));
      });
      return () => {
        end();
        chart?.end();
      };
    },
  };
}

/** The chart's content for an answer. The value of a single place is carried forward, with ±T around it. */
function drawn(found, metric, colour, lastMs) {
  const [from, to, width] = [ms(found.since), Math.min(ms(found.until), Date.now()), found.bucket_ns / 1e6];
  const number = (value) => (value === null ? null : Number(value));
  const at = (index) => from + (index + 0.5) * width;
  const count = Math.max(1, Math.ceil((to - from) / width));
  const points = found.highest.slice(0, count).map((value, index) => [at(index), metric === "drop" ? number(value) ?? 0 : number(value)]);
  const series = [{ name: metric === "drop" ? "drop reports" : "highest", colour, points, fill: metric === "drop" }];
  const carries = metric === "link_utilization" || (metric === "queue_occupancy" && found.queue !== null);
  if (carries) {
    let stored = number(found.before);
    const bounds = [];
    const T = found.change === null ? 0 : Number(found.change);
    const held = points.map(([time, highest], index) => {
      const latest = number(found.latest[index]);
      if (latest !== null) stored = latest;
      if (stored === null || (time > lastMs + width && highest === null)) return [time, null];
      bounds.push([time, Math.max(0, Math.min(stored - T, number(found.lowest[index]) ?? Infinity)), Math.max(stored + T, highest ?? 0)]);
      return [time, highest ?? stored];
    });
    series[0] = { ...series[0], points: held, bounds: T ? bounds : undefined };
  }
  const bands = found.alarms.map((each) => ({ from: each.start ? ms(each.start) : from, to: each.end ? ms(each.end) : to }));
  return { series, from, to, limit: number(found.raise_above) !== null && series[0].points.some(([, value]) => value > Number(found.raise_above) / 2) ? Number(found.raise_above) : null, bands };
}
