/** Tables of the overview: slow flows and hops, contributors to latency, losses. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { exports } from "../../lib/export.js";
import { duration, flowText, percent, si } from "../../lib/format.js";
import { asksCluster } from "../../lib/members.js";
import { empty, panel, placeLink } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

const placeOf = (each) => `${each.node?.name ?? each.node?.id ?? ""} ${each.port?.name ?? each.port?.id ?? ""} ${each.queue ?? ""}`;
const placeColumn = { name: "place", title: "Switch, port", cell: (each) => placeLink(each.node, each.port, each.queue), value: placeOf };

function tablePanel(name, options, rows, pick) {
  const box = panel(name, { ...options, tools: exports(name.toLowerCase().replaceAll(" ", "-"), { table: rows.export }) });
  fill(box.body, rows.element);
  return { ...box, rows, update: (data) => rows.update(pick(data)) };
}

export function flowPanel() {
  return tablePanel("Slowest flows", { note: "by latest latency", href: link("/flows", { sort: "-latency" }) }, table({
    label: "Slowest flows", key: (each) => `${each.flow.id}/${each.member ?? ""}`, href: (each) => link(["flows", each.flow.id]), mood: (each) => (each.alarms.length ? "bad" : ""),
    empty: empty("No live flow carries hop latencies."),
    columns: [
      { name: "flow", title: "Flow", cell: (each) => h("a", { href: link(["flows", each.flow.id]) }, flowText(each.flow)), value: (each) => flowText(each.flow) },
      { name: "latency", title: "Latency", number: true, ns: true, cell: (each) => (each.latency_ns === null ? "–" : duration(each.latency_ns)), value: (each) => (each.latency_ns === null ? null : Number(each.latency_ns)) },
      { name: "mean", title: "Mean", number: true, ns: true, cell: (each) => (each.latency_mean_ns === null ? "–" : duration(each.latency_mean_ns)), value: (each) => each.latency_mean_ns },
      { name: "hops", title: "Hops", number: true, cell: (each) => each.hop_count },
      { name: "packets", title: "Reports", number: true, cell: (each) => si(each.packets), value: (each) => Number(each.packets) },
      ...(asksCluster() ? [{ name: "member", title: "Member", value: (each) => each.member, cell: (each) => each.member ?? "–" }] : []),
    ],
  }), (data) => data.slow_flows);
}

export function hopPanel() {
  return tablePanel("Slowest hops", { note: "on the 100 slowest flows" }, table({
    label: "Slowest hops", key: placeOf, empty: empty("No report carries hop latencies."),
    columns: [
      placeColumn,
      { name: "worst", title: "Worst", number: true, ns: true, cell: (each) => duration(each.worst_ns), value: (each) => each.worst_ns },
      { name: "mean", title: "Mean", number: true, ns: true, cell: (each) => duration(each.mean_ns), value: (each) => each.mean_ns },
      { name: "flows", title: "Flows", number: true, cell: (each) => h("a", { href: link("/flows", { node: each.node.name ?? each.node.id, egress: each.port?.id }) }, String(each.flows)), value: (each) => each.flows },
    ],
  }), (data) => data.slow_hops);
}

export function contributorPanel() {
  const columns = [
    { ...placeColumn, title: "Switch, port, queue" },
    { name: "share", title: "Share", number: true, value: (each) => each.share, cell: (each) => h("span", null, h("span", { class: "meter" }, h("i", { style: { width: `${100 * each.share}%` } })), percent(each.share)) },
    { name: "mean", title: "Mean", number: true, ns: true, cell: (each) => duration(each.mean_ns), value: (each) => each.mean_ns },
    { name: "p99", title: "p99", number: true, ns: true, cell: (each) => (each.p99_ns ? duration(each.p99_ns.estimate) : "–"), value: (each) => each.p99_ns?.estimate ?? null },
    { name: "queue", title: "Queue now", number: true, cell: (each) => si(each.occupancy.latest ?? NaN), value: (each) => each.occupancy.latest },
    { name: "highest", title: "Highest", number: true, cell: (each) => si(each.occupancy.highest ?? NaN), value: (each) => each.occupancy.highest },
    { name: "link", title: "Link now", number: true, cell: (each) => si(each.utilization.latest ?? NaN), value: (each) => each.utilization.latest },
    { name: "packets", title: "Packets", number: true, cell: (each) => si(each.packets), value: (each) => Number(each.packets) },
  ];
  const none = h("div");
  const box = tablePanel("Top latency contributors", {}, table({ label: "Top latency contributors", key: placeOf, columns, empty: none }), (data) => data.contributors);
  return { ...box, update: (data) => {
    box.update(data);
    const counted = ["recent", "all"].includes(data.contributors_source);
    fill(none, counted ? empty("No packet carried hop latencies.") : empty("No hop latencies.", "Enable distributions to measure all packets:", "[distributions]\nenabled = true"));
    box.note(data.contributors_note === "needs distributions" ? "" : data.contributors_note);
  } };
}

export function lossPanel() {
  const box = panel("Losses by place");
  const dropped = table({ label: "Packets dropped", key: placeOf, columns: [
    { ...placeColumn, title: "Packets dropped at" },
    { name: "minute", title: "Last minute", number: true, cell: (each) => si(each.last_minute), value: (each) => each.last_minute },
    { name: "total", title: "Total", number: true, cell: (each) => h("a", { href: link("/events", { kind: "drop", node: each.node?.name ?? each.node?.id }) }, si(each.total)), value: (each) => each.total },
  ] });
  const lost = table({ label: "Reports lost", key: (each) => each.key, columns: [
    { name: "source", title: "Reports lost, by source or worker", cell: (each) => h("a", { href: link("/system", { part: "sources" }) }, each.name), value: (each) => each.name },
    { name: "lost", title: "Reports", number: true, cell: (each) => `${each.at_most ? "at most " : ""}${si(each.lost)}`, value: (each) => Number(each.lost) },
    { name: "share", title: "Share", number: true, cell: (each) => (each.share === null ? "–" : percent(each.share)), value: (each) => each.share },
  ] });
  const none = empty("No packets or reports were lost.");
  fill(box.body, none, dropped.element, lost.element);
  return {
    element: box.element,
    update({ drops, lost_sources, lost_workers }) {
      const rows = [
        ...lost_sources.map((each) => ({ key: `${each.address}/${each.node?.id}/${each.hw_id}`, name: `${each.node?.name ?? ""} ${each.address} hw ${each.hw_id}`.trim(), lost: each.lost, at_most: each.lost_at_most, share: Number(each.lost) / (Number(each.lost) + Number(each.received)) })),
        ...lost_workers.map((each) => ({ key: `${each.member}/${each.worker}/${each.cause}`, name: `${each.member ? `${each.member} ` : ""}worker ${each.worker}: ${each.cause}`, lost: each.reports, share: null })),
      ];
      dropped.update(drops);
      lost.update(rows);
      dropped.element.hidden = !drops.length;
      lost.element.hidden = !rows.length;
      none.hidden = drops.length + rows.length > 0;
    },
  };
}
