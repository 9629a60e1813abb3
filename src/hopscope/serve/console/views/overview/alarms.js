/** Open alarms: values above their limit, with place, time and affected flows. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { ago, amount, flowText, moment, words } from "../../lib/format.js";
import { watch } from "../../lib/live.js";
import { asksCluster, eventLink } from "../../lib/members.js";
import { alarmPlace, empty, panel } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

export function alarmPanel() {
  const count = h("span", { class: "chip", hidden: true });
  const box = panel("Open alarms", { note: "currently above their limits", href: link("/events", { part: "alarms" }), tools: count });
  const rows = table({
    label: "Open alarms",
    key: (each) => `${each.key}/${each.member ?? ""}`,
    mood: () => "bad",
    sort: "-since",
    empty: empty("Nothing is above its limit."),
    columns: [
      { name: "metric", title: "Alarm", value: (each) => each.metric, cell: (each) => what(each) },
      { name: "place", title: "Where", phone: "plain", cell: alarmPlace },
      { name: "value", title: "Now", number: true, cell: (each) => h("b", { class: "bad" }, amount(each.value, each.unit)), value: (each) => Number(each.value) },
      { name: "peak", title: "Peak", number: true, cell: (each) => amount(each.peak, each.unit), value: (each) => Number(each.peak) },
      { name: "limit", title: "Limit", number: true, cell: (each) => amount(each.limit, each.unit), value: (each) => Number(each.limit) },
      { name: "since", title: "Since", cell: (each) => (each.since ? h("span", { title: moment(each.since) }, ago(each.since)) : "–"), value: (each) => each.since },
      ...(asksCluster() ? [{ name: "member", title: "Member", value: (each) => each.member, cell: (each) => each.member ?? "–" }] : []),
      { name: "flows", title: "Affected flows", value: (each) => each.flows, cell: (each) => whose(each) },
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

function what(each) {
  const text = each.kind === "silent" ? "silent source" : words(each.metric);
  return each.id ? h("a", { href: eventLink(each) }, text) : text;
}

function whose(each) {
  if (!each.flows || !each.node) return each.flow ? h("a", { href: link(["flows", each.flow.id]) }, flowText(each.flow)) : "–";
  const all = h("a", { href: link("/flows", { node: each.node.name ?? each.node.id, egress: each.port?.id }) }, `${each.flows} ${each.flows === 1 ? "flow" : "flows"}`);
  const worst = each.worst[0];
  return h("span", null, all, worst && [", ", h("a", { href: link(["flows", worst.flow.id]), title: flowText(worst.flow) }, "slowest")]);
}
