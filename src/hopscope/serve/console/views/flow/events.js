/** The newest events of a flow. */

import { h, keyed } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { eventMood, eventText } from "../../lib/event_text.js";
import { exports } from "../../lib/export.js";
import { clock, moment } from "../../lib/format.js";
import { eventLink } from "../../lib/members.js";
import { empty, panel } from "../../lib/panel.js";

export function eventPanel(id) {
  let items = [];
  const list = h("ol", { class: "feed scroll" });
  const none = empty("History has no event of this flow.");
  const rows = () => ({ names: ["id", "time", "kind", "metric", "value", "previous", "unit", "node", "port"], rows: items.map((each) =>
    [each.id, each.time, each.kind, each.metric, each.value, each.previous, each.unit, each.node?.name ?? each.node?.id, each.port?.name ?? each.port?.id]) });
  const box = panel("Events of this flow", { class: "waits", note: "newest first, without repeated values", href: link("/events", { flow: id }), tools: exports("flow-events", { table: rows, json: () => items }) });
  box.body.append(list, none);
  return {
    element: box.element,
    update(data, status) {
      if (status !== 200) return;
      items = data.items;
      box.element.classList.remove("waits");
      none.hidden = items.length > 0;
      keyed(list, items, (each) => `${each.member ?? ""}/${each.id}`, (each) => h("li", { class: eventMood(each) },
        h("a", { href: eventLink(each) }, h("time", { datetime: each.time, title: moment(each.time) }, clock(each.time)), eventText({ ...each, flow: null }))));
    },
  };
}
