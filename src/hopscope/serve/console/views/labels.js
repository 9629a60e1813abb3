/** Labels (INT-label): coverage, the age and S of every port, and the flows that switches track. */

import { h, fill } from "../lib/dom.js";
import { param, set } from "../lib/address.js";
import { get, path } from "../lib/api.js";
import { exports } from "../lib/export.js";
import { bytes, duration, ms, percent, si } from "../lib/format.js";
import { watch } from "../lib/live.js";
import { empty, figures, panel, placeLink, tabs } from "../lib/panel.js";
import { range, iso, choose } from "../lib/range.js";
import { table } from "../lib/table.js";
import { lineChart } from "../charts/line.js";
import { trackedPanel } from "./labels/tracked.js";

export const title = "Labels";
const PAGE = 100;

export function show(place) {
  const first = h("div");
  const numbers = figures();
  const coverage = coveragePanel();
  const ports = portPanel();
  const tracked = trackedPanel();
  const grid = h("div", { class: "grid" }, coverage.element, ports.element, tracked.element);
  fill(place, first, numbers.element, grid);
  let about = null;
  let series = null;
  let silent = null;

  function draw() {
    if (!about) return;
    const takes = about.mode !== null;
    numbers.element.hidden = grid.hidden = !takes;
    fill(first, takes ? null : empty("This collector does not receive labels.", "With INT-label, switches write labels into passing packets. To receive them from the last hops, set:",
      "[label]\nlisten = \"127.0.0.1:7254\""));
    numbers.update([
      { key: "coverage", title: "Coverage", value: series?.mean === null || !series ? "–" : percent(series.mean), note: series ? `${si(series.intervals)} intervals of ${duration(series.telemetry_ns)}` : "", mood: series?.mean < 0.95 && series?.mean !== null ? "warn" : "" },
      { key: "ports", title: "Ports", value: si(about.total), note: "that label packets" },
      { key: "silent", title: "Silent ports", value: silent === null ? "–" : si(silent), mood: silent ? "bad" : "", note: silent ? "sent no label for label.silent_seconds" : "all send labels" },
      { key: "late", title: "Late after", value: duration(about.timeout_ns), note: "k T without a label" },
      { key: "t", title: "T", value: duration(about.interval_ns), note: `one label per port; mode ${about.mode}` },
    ]);
  }
  const ends = [
    watch(path("/labels", { limit: 1 }, { scope: true }), (data, status) => {
      if (status === 200) about = data;
      draw();
    }),
    watch(path("/labels", { limit: 1, silent: true }, { scope: true }), (data, status) => {
      silent = status === 200 ? data.total : null;
      draw();
    }),
    watch(path("/labels/coverage", { last: 600 }), (data, status) => {
      if (status !== 200) return;
      series = data;
      coverage.live(data);
      draw();
    }),
  ];
  return { end: () => [...ends, ports.end, tracked.end, coverage.end].forEach((each) => each()), change() {
    coverage.change();
    ports.change();
  } };
}

function coveragePanel() {
  let newest = null;
  const chart = lineChart({ label: "Coverage by telemetry interval", unit: "ppm", height: 150, sync: "labels", onRange: choose });
  const box = panel("Coverage", { note: "share of the ports with traffic whose labels arrived", tools: exports("coverage", { table: chart.export, png: chart.png }) });
  fill(box.body, chart.element);

  function live(data) {
    newest = data;
    if (range().chosen || !data.items.length) return;
    const points = data.items.map((each) => [ms(each.begin), each.coverage === null ? null : each.coverage * 1e6]);
    chart.set({ series: [{ name: "coverage", points, fill: true }], from: points[0][0], to: points.at(-1)[0], top: 1e6 });
  }

  async function change() {
    const { from, to, chosen } = range();
    if (!chosen) return void (newest && live(newest));
    try {
      const found = await get(path("/labels/coverage/history", { since: iso(from), until: iso(to), limit: 5000 }, { scope: true }));
      const rows = [...found.items].reverse();
      chart.set({ from, to, top: 1e6, series: [
        { name: "mean", points: rows.map((each) => [ms(each.time), each.coverage * 1e6]) },
        { name: "lowest", points: rows.map((each) => [ms(each.time), each.lowest * 1e6]) },
      ] });
      box.note(rows.length ? "mean and lowest of each period, from history" : "no history in this time range");
    } catch (error) {
      box.note(error.message);
    }
  }
  change();
  return { element: box.element, live, change, end: chart.end };
}

const SORTS = { place: "node", age: "age", rate: "labels_per_second", latency: "latency", occupancy: "occupancy", s: "s" };

function portPanel() {
  let about = null;
  let end = () => {};
  const interval = (each) => (about?.mode === "one-bit" ? (each.s ? "every packet" : duration(about.interval_ns)) : duration(Number(about?.interval_ns) / 2 ** each.s));
  const state = (each) => (each.silent ? "silent" : each.active === false ? "idle" : each.age_ns === null ? "no label yet" : "active");
  const rows = table({
    label: "Ports that label", key: (each) => `${each.node.id}/${each.port.id}`, mood: (each) => (each.silent ? "bad" : ""), sort: param("sort", "place"), empty: empty("No ports.", "Ports appear with their first label, or with label.registers."),
    onSort: (sort) => {
      set({ sort: sort === "place" ? null : sort, offset: null });
      change();
    },
    columns: [
      { name: "place", title: "Switch, port", cell: (each) => placeLink(each.node, each.port), value: (each) => `${each.node.name ?? each.node.id} ${each.port.name ?? each.port.id}` },
      { name: "state", title: "State", sorts: false, cell: (each) => h("span", { class: `chip dot ${each.silent ? "bad" : state(each) === "active" ? "good" : ""}` }, state(each)), value: state },
      { name: "age", title: "Age", number: true, ns: true, help: "Since its newest label arrived", cell: (each) => (each.age_ns === null ? "–" : duration(each.age_ns)), value: (each) => each.age_ns },
      { name: "rate", title: "Labels", number: true, cell: (each) => `${si(each.labels_per_second)}/s`, value: (each) => each.labels_per_second },
      { name: "s", title: "S", number: true, help: "Reg2: it labels every T / 2^S", cell: (each) => String(each.s), value: (each) => each.s },
      { name: "interval", title: "Interval", number: true, ns: true, sorts: false, cell: interval, value: (each) => Number(about?.interval_ns) / 2 ** each.s },
      { name: "latency", title: "Latency", number: true, ns: true, cell: (each) => (each.latency_ns === null ? "–" : duration(each.latency_ns)), value: (each) => each.latency_ns },
      { name: "occupancy", title: "Queue", number: true, cell: (each) => (each.occupancy === null ? "–" : bytes(each.occupancy)), value: (each) => each.occupancy },
      { name: "total", title: "Total labels", number: true, sorts: false, cell: (each) => si(each.labels), value: (each) => each.labels },
      { name: "late", title: "Overtaken", number: true, sorts: false, help: "Discarded because a newer one had arrived", cell: (each) => si(each.late), value: (each) => each.late },
    ],
  });
  const which = tabs("Which ports", [["", "All"], ["silent", "Silent"]], param("ports"), (value) => {
    set({ ports: value, offset: null }, true);
    change();
  });
  const node = h("input", { type: "search", placeholder: "Switch", "aria-label": "Switch", value: param("node"), onchange: () => {
    set({ node: node.value, offset: null });
    change();
  } });
  const count = h("span", { class: "soft" });
  const turn = (by) => () => {
    set({ offset: Math.max(0, Number(param("offset", "0")) + by) || null }, true);
    change();
  };
  const back = h("button", { class: "button", type: "button", onclick: turn(-PAGE) }, "Previous");
  const next = h("button", { class: "button", type: "button", onclick: turn(PAGE) }, "Next");
  const box = panel("Ports", { tools: [which.element, node, exports("label-ports", { table: rows.export })] });
  fill(box.body, rows.element, h("div", { class: "row" }, back, next, count));

  function change() {
    end();
    which.draw(param("ports"));
    const sort = param("sort", "place");
    rows.setSort(sort);
    const offset = Number(param("offset", "0"));
    end = watch(path("/labels", { sort: SORTS[sort.replace(/^-/, "")] ?? "node", order: sort.startsWith("-") ? "desc" : "asc", offset, limit: PAGE, node: param("node"), silent: param("ports") ? true : null }, { scope: true }), (data, status) => {
      if (status !== 200) return box.note(data.error);
      about = data;
      box.note(`${si(data.total)} ports`);
      rows.update(data.items);
      back.disabled = !offset;
      next.disabled = offset + data.items.length >= data.total;
      count.textContent = data.total ? `${offset + 1} to ${offset + data.items.length} of ${data.total.toLocaleString("en")}` : "";
    });
  }
  change();
  return { element: box.element, change, end: () => end() };
}
