/** The waterfall of a flow at one moment, and the same values as a table. */

import { h, fill, say } from "../../lib/dom.js";
import { go, link } from "../../lib/address.js";
import { exports } from "../../lib/export.js";
import { amount, duration, flowText, moment, nodeName, percent, portName } from "../../lib/format.js";
import { empty, panel, placeLink } from "../../lib/panel.js";
import { table } from "../../lib/table.js";
import { waterfall } from "../../charts/waterfall.js";

const number = (value) => (value === null || value === undefined ? null : Number(value));
const time = (value) => (value === null || value === undefined ? "–" : duration(value));

export function hopPanel(title) {
  let shares = new Map();
  let newest = null;
  const chart = waterfall({ label: "Latency by hop", onStep: (step) => go(step.href) });
  const values = table({
    label: "Hops", key: (each) => String(each.hop), mood: (each) => (each.differs ? "apart" : ""), sort: "hop",
    columns: [
      { name: "hop", title: "#", number: true, phone: "plain", cell: (each) => each.hop + 1, value: (each) => each.hop },
      { name: "place", title: "Switch, port", phone: "plain", cell: (each) => h("span", null, each.differs && h("b", { title: "Not on the other path" }, "≠ "), placeLink(each.node, each.port)), value: (each) => `${each.differs ? "≠ " : ""}${nodeName(each.node)} ${portName(each.port)}` },
      { name: "latest", title: "Latest", number: true, ns: true, cell: (each) => time(each.latest_ns), value: (each) => number(each.latest_ns) },
      { name: "stored", title: "Stored ± T", number: true, ns: true, help: "Until the next event, the value stays within T of the stored one", value: (each) => number(each.stored_ns),
        cell: (each) => (each.stored_ns === null ? "–" : `${time(each.stored_ns)}${each.change_limit_ns === null ? "" : ` ± ${time(each.change_limit_ns)}`}`) },
      { name: "age", title: "Stored for", number: true, ns: true, cell: (each) => time(each.age_ns), value: (each) => number(each.age_ns) },
      { name: "range", title: "Lowest to highest", number: true, ns: true, help: "From events in the time range and the latest value", value: (each) => number(each.highest_ns), cell: (each) => (each.lowest_ns === null ? "–" : `${time(each.lowest_ns)} to ${time(each.highest_ns)}`) },
      { name: "mean", title: "Mean", number: true, ns: true, cell: (each) => time(each.mean_ns), value: (each) => each.mean_ns },
      { name: "queue", title: "Queue", number: true, help: "In the switch's own unit", cell: (each) => gaugeText(each.queue_occupancy), value: (each) => each.queue_occupancy.value },
      { name: "link", title: "Link", number: true, help: "In the switch's own unit", cell: (each) => gaugeText(each.link_utilization), value: (each) => each.link_utilization.value },
      { name: "usual", title: "Typical there", number: true, ns: true, help: "Median and 99th percentile of all packets at this place", cell: usual, value: (each) => shares.get(each.node.id)?.median_ns?.estimate ?? null },
    ],
  });
  const name = title.toLowerCase().replaceAll(" ", "-");
  const box = panel(title, { class: "waits", tools: exports(name, { table: values.export, json: () => newest, png: chart.png }) });
  const words = h("p", { class: "soft verdict" });
  const failed = h("div", { hidden: true });
  fill(box.body, words, failed, chart.element, values.element, h("p", { class: "note" },
    "Each bar is the latest latency of a hop, or its stored value (paler, ~). The mark is the stored value. The bracket below it is ± T: the value stays within it until the next event."));

  function usual(each) {
    const share = shares.get(each.node.id);
    if (!share?.median_ns) return "–";
    return `${duration(share.median_ns.estimate)} · p99 ${share.p99_ns ? duration(share.p99_ns.estimate) : "–"}`;
  }

  function verdict(data, { at, flow }) {
    const when = data.state === "live" && !at ? "now" : moment(data.time);
    const whose = flow && data.flow ? `${flowText(data.flow)}, ` : "";
    const known = data.hops.map((each) => number(each.latest_ns ?? each.stored_ns) ?? 0);
    const total = known.reduce((sum, each) => sum + each, 0);
    const worst = known.indexOf(Math.max(...known));
    const share = total ? known[worst] / total : 0;
    const bounds = at && data.limits_changed && Date.parse(data.limits_changed) > Date.parse(data.time) ? " Limits have changed since: T may have been different then." : "";
    const place = share > 0.5 ? ` ${nodeName(data.hops[worst].node)} ${portName(data.hops[worst].port)} takes ${percent(share)} of it.` : "";
    box.note(`${whose}${when}`);
    say(words, total ? `${duration(total)} over ${data.hops.length} hops.${place}${bounds}` : "");
  }

  return {
    element: box.element,
    reach: (data) => reachOf(data),
    /** `against`: the answer to compare with; `top`: common end of the axes. */
    update(data, { at = null, against = null, top = null, flow = null } = {}) {
      newest = data;
      box.element.classList.remove("waits");
      failed.hidden = data.hops.length > 0;
      chart.element.hidden = values.element.hidden = !data.hops.length;
      if (!data.hops.length) fill(failed, empty("No path is known at this moment.", "Reports of this flow carried no node ids, or history begins later."));
      const others = against && new Set(against.hops.map((each) => each.node.id));
      const rows = data.hops.map((each) => ({ ...each, differs: others ? !others.has(each.node.id) : false }));
      chart.set({ steps: rows.map(stepOf), total: { ...valueOf(data.latency), key: "total", label: "whole path" }, top });
      values.update(rows);
      verdict(data, { at, flow });
    },
    shares(data) {
      shares = new Map(data.items.map((each) => [each.node.id, each]));
      if (newest) values.update(newest.hops.map((each) => ({ ...each })));
    },
    fail(text) {
      box.element.classList.remove("waits");
      failed.hidden = false;
      chart.element.hidden = values.element.hidden = true;
      say(words, "");
      fill(failed, empty("This moment cannot be shown.", text));
    },
  };
}

function gaugeText(gauge) {
  return gauge.value === null ? "–" : amount(gauge.value, null);
}

function valueOf(value) {
  return {
    value: number(value.latest_ns), stored: number(value.stored_ns), limit: number(value.change_limit_ns), age: number(value.age_ns),
    lowest: number(value.lowest_ns), highest: number(value.highest_ns),
  };
}

function stepOf(hop) {
  const place = [nodeName(hop.node), portName(hop.port)].filter(Boolean).join(" · ");
  return {
    ...valueOf(hop), key: String(hop.hop), label: place, queue: hop.queue_occupancy.value, link: hop.link_utilization.value, differs: hop.differs,
    href: hop.port ? link(["ports", hop.node.name ?? hop.node.id, hop.port.name ?? hop.port.id]) : link("/fabric", { selected: String(hop.node.id) }),
  };
}

/** The extent of the axis: the sum of the hops. */
function reachOf(data) {
  const sum = data.hops.reduce((all, each) => all + (number(each.latest_ns ?? each.stored_ns) ?? 0), 0);
  return Math.max(1, sum, number(data.latency.latest_ns ?? data.latency.stored_ns) ?? 0) * 1.02;
}

