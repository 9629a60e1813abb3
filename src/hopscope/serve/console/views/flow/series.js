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
  let part = param("part") === "hops" ? "hops" : "total";
  const chart = lineChart({ label: "Stored latency over time", unit: "ns", height: 170, onRange: (from, to) => choose(from, to) });
  const names = h("div");
  const none = h("div", { hidden: true });
  const choice = tabs("What is drawn", [["total", "Whole path"], ["hops", "Hops"]], part, (name) => {
    part = name;
    set({ part: name === "total" ? null : name });
    draw();
  });
  const box = panel("Latency over time", { class: "waits", note: "stored values, ± T", tools: [choice.element, exports("flow-latency", { table: chart.export, json: () => newest, png: chart.png })] });
  fill(box.body, names, none, chart.element);

  function draw() {
    if (!newest) return;
    const items = newest.items.filter((each) => (part === "total") === (each.metric === "flow_latency")).sort((a, b) => highest(b) - highest(a)).slice(0, MOST);
    const points = items.flatMap((each) => each.points);
    none.hidden = points.length > 0;
    chart.element.hidden = !points.length;
    if (!points.length) return void fill(none, empty("No value was stored in this time range.", "A latency is stored when it differs from the stored one by more than T; choose an earlier range above."));
    const { from, to, chosen } = range();
    const begin = chosen ? from : Math.min(...points.map((each) => ms(each.time)));
    const series = items.map((each, at) => seriesOf(each, at, to, items.length === 1));
    chart.set({ series, from: chosen ? begin : begin - 0.02 * (to - begin), to });
    fill(names, series.length > 1 && legend(series));
    box.note(`stored values${items.length === 1 ? ", ± T" : ""}; ${newest.truncated ? "older ones are left out" : "draw over a part to look closer"}`);
  }

  return {
    element: box.element,
    update(data, status) {
      if (status !== 200) return;
      newest = data;
      box.element.classList.remove("waits");
      draw();
    },
    end: chart.end,
  };
}

const highest = (each) => Math.max(0, ...each.points.map((point) => Number(point.value)));

/** The value holds until the next one: two points for each, and the band of ± T. */
function seriesOf(each, at, end, bounded) {
  const stored = each.points.map((point) => [ms(point.time), Number(point.value)]);
  const limit = each.change_limit === null ? null : Number(each.change_limit);
  const steps = [...stored, [Math.max(end, stored.at(-1)[0]), stored.at(-1)[1]]];
  const bounds = limit === null || !bounded ? [] : stored.flatMap(([time, value], index) => {
    const next = steps[index + 1][0];
    return [[time, Math.max(0, value - limit), value + limit], [next, Math.max(0, value - limit), value + limit]];
  });
  return { name: each.node ? `${nodeName(each.node)} ${portName(each.port)}` : "whole path", colour: `--s${1 + at}`, points: steps, bounds, step: true };
}
