/** Open alarms: what is above its limit, where, since when, and whose traffic it meets. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { ago, amount, clock, flowText, words } from "../../lib/format.js";
import { watch } from "../../lib/live.js";
import { empty, panel, placeLink } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

export function alarmPanel() {
  const count = h("span", { class: "chip", hidden: true });
  const box = panel("Open alarms", { note: "above their limit now", href: link("/events", { part: "alarms" }), tools: count });
  const rows = table({
    label: "Open alarms",
    key: (each) => each.id,
    mood: () => "bad",
    sort: "-since",
    empty: empty("Nothing is above its limit.", "Limits are on the page Limits."),
    columns: [
      { name: "metric", title: "What", cell: (each) => h("a", { href: link(["events", each.event ?? each.id]) }, words(each.metric)), value: (each) => each.metric },
      { name: "place", title: "Where", cell: (each) => (each.node ? placeLink(each.node, each.port, each.queue) : h("span", null, flowText(each.flow))), value: (each) => `${each.node?.id}/${each.port?.id}/${each.queue}` },
      { name: "value", title: "Now", number: true, cell: (each) => h("b", { class: "bad" }, amount(each.value, each.unit)), value: (each) => Number(each.value) },
      { name: "peak", title: "Peak", number: true, cell: (each) => amount(each.peak, each.unit), value: (each) => Number(each.peak) },
      { name: "limit", title: "Limit", number: true, cell: (each) => amount(each.limit, each.unit), value: (each) => Number(each.limit) },
      { name: "since", title: "Since", cell: (each) => h("span", { title: clock(each.since) }, ago(each.since)), value: (each) => each.since },
      { name: "flows", title: "Flows", number: true, cell: (each) => (each.node ? h("a", { href: link("/flows", { node: each.node.name ?? each.node.id, egress: each.port?.id }) }, String(each.flow_count ?? "–")) : "1"), value: (each) => each.flow_count ?? 1 },
    ],
  });
  fill(box.body, h("div", { class: "scroll alarms" }, rows.element));
  const end = watch(path("/alarms", { limit: 50 }, { scope: true }), (data, status) => {
    box.element.hidden = status === 404;
    if (status !== 200) return;
    rows.update(data.items);
    count.hidden = !data.total;
    count.className = "chip bad dot";
    count.textContent = `${data.total} open`;
  });
  return { element: box.element, end };
}
