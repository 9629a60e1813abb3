/** Latency of a flow and of its hops over time: stored values, with ± T round them. */

import { h, fill } from "../../lib/dom.js";
import { param, set } from "../../lib/address.js";
import { exports } from "../../lib/export.js";
import { ms, nodeName, portName } from "../../lib/format.js";
import { empty, panel, tabs } from "../../lib/panel.js";
import { choose, range } from "../../lib/range.js";
import { legend, lineChart } from "../../charts/line.js";

const MOST = 6;

export function seriesPanel() {
  let newest = null;
  let periods = [];
  let part = param("part") === "hops" ? "hops" : "total";
  const chart = lineChart({ label: "Stored latency over time", unit: "ns", height: 170, onRange: (from, to) => choose(from, to) });
  const names = h("div");
  const none = h("div", { hidden: true });
  const choice = tabs("Show", [["total", "Whole path"], ["hops", "Hops"]], part, (name) => {
    part = name;
    set({ part: name === "total" ? null : name });
    draw();
  });
  const box = panel("Latency over time", { class: "waits", note: "stored values, ± T", tools: [choice.element, exports("flow-latency", { table: chart.export, json: () => newest, png: chart.png })] });
  fill(box.body, names, none, chart.element);

  function draw() {
    if (!newest) return;
    const reported = ({ time }) => !newest.last_seen || ms(time) <= ms(newest.last_seen);  // a value that is only repeated is none
    const items = newest.items.filter((each) => (part === "total") === (each.metric === "flow_latency"))
      .map((each) => ({ ...each, points: each.points.filter(reported) })).filter((each) => each.points.length).sort((a, b) => highest(b) - highest(a)).slice(0, MOST);
    const points = items.flatMap((each) => each.points);
    none.hidden = points.length > 0;
    chart.element.hidden = !points.length;
    if (!points.length) return void fill(none, empty("No value was stored in this time range.", "A latency is stored only when it differs from the last stored value by more than T. Choose an earlier range above."));
    const { from, to, chosen } = range();
    const begin = chosen ? from : Math.min(...points.map((each) => ms(each.time)));
    const series = items.map((each, at) => seriesOf(each, at, (time) => heldUntil(newest, periods, each.node, time, to), items.length === 1));
    chart.set({ series, from: chosen ? begin : begin - 0.02 * (to - begin), to });
    fill(names, series.length > 1 && legend(series));
    box.note(`stored values${items.length === 1 ? ", ± T" : ""}; ${newest.truncated ? "older values are not shown" : "drag to zoom in"}`);
  }

  return {
    element: box.element,
    update(data, status) {
      if (status !== 200) return;
      newest = data;
      box.element.classList.remove("waits");
      draw();
    },
    /** Periods of its paths: a hop that is not on the path any more has no value. */
    paths(data) {
      periods = data.items;
      draw();
    },
    end: chart.end,
  };
}

const highest = (each) => Math.max(0, ...each.points.map((point) => Number(point.value)));

/** When a value stored at `time` stops being valid if no other follows: at the last report, or earlier if the flow or hop had left. */
function heldUntil({ last_seen: last }, periods, node, time, end) {
  const left = periods.filter((each) => each.left && ms(each.until) > time).map((each) => ms(each.until));
  const elsewhere = node ? periods.filter((each) => ms(each.since) > time && !each.path.some(({ id }) => id === node.id)).map((each) => ms(each.since)) : [];
  return Math.max(time, Math.min(end, last ? ms(last) : end, ...left, ...elsewhere));
}

/** The value holds until the next one, or `held(time)`: two points for each, a gap after it, and the band of ± T. */
function seriesOf(each, at, held, bounded) {
  const limit = each.change_limit === null ? null : Number(each.change_limit);
  const points = [];
  const bounds = [];
  each.points.forEach(({ time, value }, index) => {
    const [from, next, number] = [ms(time), index + 1 < each.points.length ? ms(each.points[index + 1].time) : Infinity, Number(value)];
    const until = Math.min(next, held(from));
    points.push([from, number]);
    if (until < next) points.push([until, number], [until, null]);
    if (limit !== null && bounded) bounds.push([from, Math.max(0, number - limit), number + limit], [until, Math.max(0, number - limit), number + limit], ...(until < next ? [[until, null, null]] : []));
  });
  return { name: each.node ? `${nodeName(each.node)} ${portName(each.port)}` : "whole path", colour: `--s${1 + at}`, points, bounds, step: true };
}
