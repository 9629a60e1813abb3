/** The slowest flow, hop by hop: each hop's share of the latency as a ribbon, and a card for each. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { ago, amount, duration, flowText, si } from "../../lib/format.js";
import { empty, panel, placeLink } from "../../lib/panel.js";

export function pathPanel() {
  const box = panel("Path of the slowest flow", { note: "latest hop latencies" });
  let key = "";
  return {
    element: box.element,
    update({ slowest, time, unit }) {
      box.element.hidden = !slowest;
      if (!slowest) return void fill(box.body, empty("No live flow carries hop latencies."));
      const next = JSON.stringify([slowest.flow.id, slowest.path]);
      if (next === key) return;
      key = next;
      const known = slowest.path.map((hop) => hop.latency_ns ?? 0);
      const total = Math.max(1, known.reduce((sum, each) => sum + each, 0));
      const worst = 2 * Math.max(...known) > total ? known.indexOf(Math.max(...known)) : -1;
      fill(box.body,
        h("p", { class: "path-head" }, h("a", { href: link(["flows", slowest.flow.id]) }, h("b", null, flowText(slowest.flow))),
          h("span", { class: "soft" }, ` ${duration(total)} over ${slowest.path.length} hops · ${si(slowest.packets)} ${unit}s · last ${ago(slowest.last_seen, Date.parse(time))}${slowest.member ? ` · at ${slowest.member}` : ""}`),
          slowest.has_loop && h("b", { class: "bad" }, " · loop"), slowest.path_incomplete && " · path incomplete"),
        h("div", { class: "ribbon", "aria-hidden": "true" }, known.map((each, at) => h("i", { class: at === worst ? "slow" : "", style: { "flex-grow": String(Math.max(each, total / 200)) } }))),
        h("ol", { class: "hops" }, slowest.path.map((hop, at) => card(hop, known[at], total, at === worst))));
    },
  };
}

function card(hop, latency, total, slowest) {
  const more = [`${((100 * latency) / total).toFixed(0)} %`];
  if (hop.queue_occupancy) more.push(`queue ${si(hop.queue_occupancy)}`);
  if (hop.link_utilization) more.push(`link ${si(hop.link_utilization)}`);
  return h("li", { class: hop.alarms.length ? "bad-hop" : slowest ? "slow-hop" : "" }, placeLink(hop.node, hop.egress_port),
    h("strong", null, hop.latency_ns === null ? "–" : amount(hop.latency_ns, "ns")), h("small", null, more.join(" · ")));
}
