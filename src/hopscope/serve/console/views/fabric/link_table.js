/** The links of the map as a table, for keyboards, screen readers and CSV. */

import { h } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { table } from "../../lib/table.js";
import { titleOf, valueText } from "./metrics.js";

/** Rows that are drawn: those with the highest values. */
const MOST = 200;

export function linkTable() {
  let metric = "hop_latency";
  let newest = null;
  const grid = table({
    label: "Links of the map",
    key: (row) => row.key,
    href: (row) => (row.port === null ? link("/fabric", { pod: row.to.kind === "pod" ? row.to.name : row.from.name }) : link(["ports", row.from.name, row.port])),
    mood: (row) => (row.hot ? "bad" : ""),
    columns: [
      { name: "from", title: "From", cell: (row) => row.from.name },
      { name: "port", title: "Port", number: true, cell: (row) => row.port ?? `${row.count} ports`, value: (row) => row.port },
      { name: "to", title: "To", cell: (row) => row.to.name },
      { name: "value", title: "Highest", number: true, cell: (row) => valueText(row.value, metric), value: (row) => row.value },
      { name: "hot", title: "Hot", number: true, cell: (row) => (row.hot ? `▲ ${row.hot}` : "–"), value: (row) => row.hot },
      { name: "flows", title: "Flows", number: true, cell: (row) => row.flows },
    ],
  });
  const summary = h("summary", null, "Links as a table");
  const element = h("details", { class: "panel", ontoggle: draw }, summary, grid.element);

  function rows() {
    if (!newest) return [];
    const { structure: { nodes, links }, values } = newest;
    return links.from.map((from, at) => ({
      key: `${nodes[from].name}/${links.port[at]}/${nodes[links.to[at]].name}`, from: nodes[from], to: nodes[links.to[at]], port: links.port[at],
      count: links.count[at], value: values.links[at], hot: values.links_hot[at], flows: values.links_flows[at],
    })).sort((a, b) => b.hot - a.hot || (b.value ?? -1) - (a.value ?? -1));
  }

  function draw() {
    if (!element.open || !newest) return;
    const all = rows();
    summary.textContent = `Links as a table: ${titleOf(metric)}${all.length > MOST ? `, the ${MOST} highest of ${all.length}` : ""}`;
    grid.update(all.slice(0, MOST));
  }

  return {
    element,
    update(data) {
      newest = data;
      metric = data.asked.metric;
      draw();
    },
    /** All links, for CSV. */
    export: () => ({ names: ["from", "port", "to", "links", metric, "hot", "flows"],
      rows: rows().map((row) => [row.from.name, row.port, row.to.name, row.count, row.value, row.hot, row.flows]) }),
  };
}
