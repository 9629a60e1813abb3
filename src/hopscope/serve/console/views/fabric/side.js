/** The panel of the selected switch, port or pod: its values, and links to its pages. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { get, path } from "../../lib/api.js";
import { watch } from "../../lib/live.js";
import { figures, panel, placeLink, trouble } from "../../lib/panel.js";
import { iso, range } from "../../lib/range.js";
import { ms, nodeName, portName } from "../../lib/format.js";
import { table } from "../../lib/table.js";
import { lineChart } from "../../charts/line.js";
import { METRICS, UNITS, titleOf, valueText } from "./metrics.js";

const SERIES_MS = 5000;

/** @param {() => void} close */
export function sidePanel(close) {
  const button = h("button", { class: "button small", type: "button", "aria-label": "Close", title: "Close (Esc)", onclick: close }, "✕");
  const box = panel("", { class: "side", tools: button });
  const heading = box.element.querySelector("h2");
  box.element.hidden = true;
  let key = "";
  let ends = [];

  function leave() {
    ends.forEach((end) => end());
    ends = [];
  }

  /** @param {{node: any, port: number | null, metric: string, at: string | null, window: number, pods: any} | null} what */
  function show(what) {
    const mine = what ? JSON.stringify([what.node.kind, what.node.id ?? what.node.name, what.port, what.metric, what.at]) : "";
    if (what?.node.kind !== "switch" && what && mine === key) return void showGroup(what);
    if (mine === key) return;
    key = mine;
    leave();
    box.element.hidden = !what;
    if (!what) return;
    if (what.node.kind === "switch") showSwitch(what);
    else showGroup(what);
  }

  function showSwitch({ node, port, metric, at, window }) {
    const name = node.name;
    const numbers = figures();
    const chart = lineChart({ label: `${titleOf(metric)} over time`, unit: UNITS[metric] ?? null, height: 96 });
    const ports = portTable(metric);
    const queues = h("div");
    const links = h("p", { class: "links" });
    fill(heading, name);
    fill(box.body, numbers.element, links, chart.element, queues, h("h3", null, "Egress ports"), ports.element);
    const of = path("/fabric/ports", { node: String(node.id), at, window: at ? window : null }, { scope: true });
    const draw = (data) => {
      const items = data.items;
      const mine = port === null ? items : items.filter((each) => each.port?.id === port);
      if (port !== null && mine[0]) fill(heading, placeLink(mine[0].node, mine[0].port), mine[0].next ? h("span", { class: "faint" }, ` → ${nodeName(mine[0].next)}`) : null);
      numbers.update(METRICS.map(([each, title]) => {
        const worst = Math.max(...mine.map((item) => item.values[each].highest ?? -1));
        const alarms = mine.filter((item) => item.values[each].alarm).length;
        return { key: each, title, value: worst < 0 ? "–" : valueText(worst, each), mood: alarms ? "bad" : "", note: alarms ? `${alarms} in alarm` : "highest" };
      }).filter((each) => each.value !== "–"));
      const flows = mine.reduce((sum, item) => sum + item.flows, 0);
      fill(links, port === null ? null : h("a", { href: link(["ports", name, mine[0]?.port.name ?? port]) }, "Port page"),
        h("a", { href: link("/flows", port === null ? { node: name } : { node: name, port }) }, flows ? `${flows} flows through it` : "Flows through it"),
        h("a", { href: link("/events", { node: name, port: port ?? null }) }, "Events"));
      ports.update([...items].sort((a, b) => (b.values[metric].highest ?? -1) - (a.values[metric].highest ?? -1)), port);
    };
    if (at) get(of).then(draw, (error) => fill(box.body, trouble(error)));
    else ends.push(watch(of, (data, status) => (status === 200 ? draw(data) : fill(box.body, trouble({ message: data.error })))));
    keepSeries(chart, { metric, node, port, at });
    if (port !== null && !at) keepQueues(queues, node, port);
  }

  function keepSeries(chart, { metric, node, port, at }) {
    let timer = 0;
    let gone = false;
    const ask = async () => {
      const { from, to } = at ? { from: ms(at) - 600_000, to: ms(at) + 300_000 } : range(900);
      try {
        const found = await get(path("/series", { metric: metric === "drops" ? "drop" : metric, node: String(node.id), port, since: iso(from), until: iso(Math.min(to, Date.now())), buckets: 90 }, { scope: true }));
        const points = pointsOf(found);
        chart.element.hidden = points.every(([, value]) => value === null);
        if (!gone) chart.set({ series: [{ name: "Highest", colour: "--s1", fill: true, points }], from, to, limit: found.raise_above === null ? null : Number(found.raise_above), bands: at ? [{ from: ms(at) - 1, to: ms(at) + 1, colour: "--accent" }] : [] });
      } catch {
        chart.element.hidden = true; // the table has the values
      }
      if (!gone && !at) timer = setTimeout(ask, SERIES_MS);
    };
    ask();
    ends.push(() => {
      gone = true;
      clearTimeout(timer);
    });
  }

  function keepQueues(place, node, port) {
    ends.push(watch(path("/queues", { node: String(node.id), limit: 200 }, { scope: true }), (data, status) => {
      const mine = status === 200 ? data.items.filter((each) => each.kind === "queue" && each.port?.id === port) : [];
      if (!mine.length) return void fill(place);
      fill(place, h("h3", null, "Queues"), h("table", null, h("tbody", null, mine.map((each) =>
        h("tr", null, h("td", null, `q${each.id ?? each.queue}`), h("td", { class: "n" }, valueText(each.occupancy, "queue_occupancy")),
          h("td", { class: "n faint" }, `highest ${valueText(each.highest_occupancy, "queue_occupancy")}`))))));
    }));
  }

  function showGroup({ node, value, hot, cells, metric }) {
    fill(heading, node.name);
    const worst = node.cells.ids.map((id, at) => ({ id, name: node.cells.names[at], value: cells[at] })).sort((a, b) => (b.value ?? -1) - (a.value ?? -1)).slice(0, 12);
    const numbers = figures();
    numbers.update([
      { key: "worst", title: `Highest ${titleOf(metric).toLowerCase()}`, value: valueText(value, metric), mood: hot ? "bad" : "" },
      { key: "hot", title: "Hot ports", value: String(hot), mood: hot ? "bad" : "" },
      { key: "switches", title: "Switches", value: String(node.cells.ids.length), note: node.host_ports ? `${node.host_ports} ports to hosts` : "" }]);
    fill(box.body, numbers.element,
      node.kind === "pod" && h("p", { class: "links" }, h("a", { href: link("/fabric", { metric, pod: node.name }) }, `Open ${node.name}`)),
      h("h3", null, "Switches with the highest values"),
      h("table", null, h("tbody", null, worst.map((each) => h("tr", null,
        h("td", null, h("a", { href: link("/fabric", { metric, pod: node.kind === "pod" ? node.name : null, selected: each.id }) }, each.name)),
        h("td", { class: "n" }, valueText(each.value, metric)))))));
  }

  return { element: box.element, show, end: leave };
}

/** The page of a port; null: the port is unknown. */
function pageOf({ node, port }) {
  return port && link(["ports", node.name ?? node.id, port.name ?? port.id]);
}

function portTable(metric) {
  let chosen = null;
  const grid = table({
    label: "Egress ports",
    key: (row) => String(row.port?.id),
    href: pageOf,
    mood: (row) => (row.values[metric].alarm ? "bad" : row.port && row.port.id === chosen ? "chosen" : ""),
    columns: [
      { name: "port", title: "Port", cell: (row) => (row.port ? h("a", { href: pageOf(row) }, portName(row.port)) : "unknown"), value: (row) => (row.port ? portName(row.port) : null) },
      { name: "next", title: "To", cell: (row) => (row.next ? nodeName(row.next) : row.port ? "hosts" : "–") },
      { name: "highest", title: titleOf(metric), number: true, cell: (row) => valueText(row.values[metric].highest, metric), value: (row) => row.values[metric].highest },
      { name: "flows", title: "Flows", number: true, cell: (row) => row.flows, help: "Live flows through this port" },
    ],
  });
  return { element: grid.element, update: (items, port) => {
    chosen = port;
    grid.update(items);
  } };
}

/** Highest value of each bucket; in buckets without an event, the last value still holds. */
function pointsOf({ since, bucket_ns, highest, latest, before }) {
  const start = ms(since);
  let last = before;
  return highest.map((value, at) => {
    const shown = value ?? last;
    last = latest[at] ?? last;
    return [start + ((at + 0.5) * bucket_ns) / 1e6, shown === null ? null : Number(shown)];
  });
}
