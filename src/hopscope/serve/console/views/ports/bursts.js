/** Bursts: when a port or queue was above its limit, for how long, and which flows contributed. */

import { h, fill } from "../../lib/dom.js";
import { link, param, set } from "../../lib/address.js";
import { exports } from "../../lib/export.js";
import { amount, clock, duration, flowText, moment, ms, words } from "../../lib/format.js";
import { empty, panel, placeLink, trouble } from "../../lib/panel.js";
import { range } from "../../lib/range.js";
import { table } from "../../lib/table.js";
import { follow } from "../../lib/range_query.js";

const LONGEST = [["", "any duration"], ["100us", "up to 100 µs"], ["1ms", "up to 1 ms"], ["10ms", "up to 10 ms"], ["100ms", "up to 100 ms"], ["1s", "up to 1 s"], ["10s", "up to 10 s"]];
const SORTS = { start: "start", duration: "duration", peak: "peak" };

/** @param {{fixed?: Record<string, any>, title?: string}} [options] `fixed`: parameters of every query */
export function burstPanel({ fixed = {}, title = "Bursts" } = {}) {
  const longest = h("select", { "aria-label": "Duration", onchange: () => set({ longest: longest.value || null }) }, LONGEST.map(([value, text]) => h("option", { value }, text)));
  const above = h("input", { type: "number", min: "0", placeholder: "alarm limit", onchange: () => set({ above: above.value || null }) });
  const trusted = h("p", { class: "note", hidden: true });
  const message = h("div", { hidden: true });
  let answer = null;
  const rows = table({
    label: title,
    key: (each) => `${each.node.id}/${each.port?.id}/${each.queue}/${each.metric}/${each.start ?? each.end}`,
    mood: (each) => (each.end ? "" : "bad"),
    href: around,
    sort: "-start",
    onSort: (sort) => set({ burst: SORTS[sort.replace("-", "")] === "start" ? null : SORTS[sort.replace("-", "")] }),
    empty: empty("No burst in this time range.", "A burst lasts from an alarm until it clears. Without limits there are no bursts: set one on the Limits page, or enter a value in Above."),
    columns: [
      { name: "start", title: "Start", cell: (each) => (each.start ? h("time", { datetime: each.start, title: moment(each.start) }, clock(each.start, 3)) : "before"), value: (each) => each.start },
      { name: "place", title: "Where", sorts: false, phone: "plain", cell: (each) => placeLink(each.node, each.port, each.queue, each.metric), value: (each) => `${each.node.name ?? each.node.id} ${each.port?.name ?? each.port?.id ?? ""} ${each.queue ?? ""}` },
      { name: "metric", title: "Metric", sorts: false, phone: "plain", cell: (each) => words(each.metric) },
      { name: "duration", title: "Duration", number: true, ns: true, help: "By the switch's clock if its reports carry timestamps, else by the collector's", value: (each) => each.duration_ns,
        cell: (each) => (each.duration_ns === null ? h("b", { class: "bad" }, each.end ? "–" : "open") : h("span", { title: `by the clock of the ${each.clock}` }, duration(each.duration_ns), each.clock === "collector" ? " ≈" : "")) },
      { name: "peak", title: "Peak", number: true, cell: (each) => h("b", null, amount(each.peak, each.unit)), value: (each) => Number(each.peak) },
      { name: "limit", title: "Limit", number: true, sorts: false, cell: (each) => amount(each.limit, each.unit), value: (each) => each.limit },
      { name: "flows", title: "Flows", number: true, sorts: false, help: "Flows with events at this place during the burst", value: (each) => each.flows,
        cell: (each) => h("span", { title: each.contributors.map((one) => flowText(one.flow)).join("\n") }, each.flows === null ? "–" : String(each.flows)) },
      { name: "contributors", title: "Slowest flow", sorts: false, value: (each) => each.contributors.map((one) => flowText(one.flow)).join("; "),
        cell: (each) => h("span", { class: "contributors" }, each.contributors.slice(0, 1).map(contributor)) },
    ],
  });
  const box = panel(title, { tools: [h("span", { class: "choices" }, h("label", null, "Above", above), longest), exports("bursts", { table: rows.export, json: () => answer })] });
  fill(box.body, message, h("div", { class: "scroll" }, rows.element), trusted);

  function draw(found) {
    answer = found;
    message.hidden = true;
    rows.element.hidden = false;
    rows.update(found.items);
    box.note(`${found.items.length < found.total ? `${found.items.length} of ${found.total}` : found.total} · click one to see its port at that time`);
    const guessed = found.items.some((each) => each.clock === "collector" && each.duration_ns !== null);
    trusted.hidden = !found.truncated && !guessed;
    trusted.textContent = [guessed ? "≈ by the collector's clock: approximate, since reports arrive in batches." : "", found.truncated ? "One search reads a limited number of events, and there were more: older bursts, or their flows, may be missing. Choose a shorter range." : ""].filter(Boolean).join(" ");
  }

  return {
    element: box.element,
    begin({ metric, node = "" }) {
      longest.value = LONGEST.some(([value]) => value === param("longest")) ? param("longest") : "";
      above.value = param("above");
      const order = SORTS[param("burst")] ?? "start";
      rows.setSort(`-${order}`);
      if (metric === "drop") {
        rows.element.hidden = trusted.hidden = true;
        message.hidden = false;
        box.note("");
        fill(message, empty("Drops have no limit.", "Each drop is an event: see the Events page."));
        return () => {};
      }
      return follow("/bursts", { metric, node: node || null, max_duration: longest.value, above: above.value, sort: order, limit: 100, ...fixed }, (data, error) => {
        if (!error) return draw(data);
        rows.element.hidden = true;
        message.hidden = false;
        fill(message, trouble(error));
      });
    },
  };
}

function contributor({ flow, events, highest_latency_ns: latency }) {
  return h("a", { href: link(["flows", flow.id]), title: `${events} events` }, flowText(flow), latency === null ? "" : h("span", { class: "faint" }, ` ${duration(latency)}`));
}

/** The port's page in the time around a burst. */
function around(each) {
  if (!each.port) return null;
  const { from, to } = range();
  const start = each.start ? ms(each.start) : from;
  const end = each.end ? ms(each.end) : to;
  const margin = Math.max(2000, 2 * (end - start));
  return link(["ports", each.node.name ?? each.node.id, each.port.name ?? each.port.id], {
    from: new Date(start - margin).toISOString(), to: new Date(end + margin).toISOString(), metric: each.metric, queue: each.queue,
  });
}
