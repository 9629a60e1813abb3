/** Sink: frames in and out, telemetry removed or kept and why, and the events derived from it. */

import { h, fill } from "../lib/dom.js";
import { link } from "../lib/address.js";
import { path } from "../lib/api.js";
import { exports } from "../lib/export.js";
import { percent, si, words } from "../lib/format.js";
import { watch } from "../lib/live.js";
import { empty, figures, panel, prose, trouble } from "../lib/panel.js";
import { table } from "../lib/table.js";
import { counterName, valueText } from "./system/counter_text.js";

export const title = "Sink";
const PANELS = [
  ["kept", "Telemetry not removed", "packets forwarded unchanged, and why"],
  ["dropped", "Not forwarded", "frames that were dropped, and why"],
  ["kernel", "In the kernel", "frames that the XDP program forwarded or passed to the workers, and why"],
  ["events", "Events", "in the event ring, and by type; an event may have several types"],
  ["throttled", "Throttled", "by the quotas of events and flow records"],
  ["report", "Reports", "to another collector"],
];

export function show(place) {
  const first = h("div");
  const numbers = figures();
  const interfaces = interfacePanel();
  const parts = PANELS.map(([name, heading, note]) => [name, reasonPanel(heading, note)]);
  const grid = h("div", { class: "grid" }, interfaces.element, parts.map(([, each]) => each.element));
  fill(place, first, numbers.element, grid);
  const stop = watch(path("/sink"), (data, status) => {
    const there = status === 200 && data.enabled;
    numbers.element.hidden = grid.hidden = !there;
    if (status !== 200) return void fill(first, trouble(new Error(data.error)));
    if (!there) {
      return void fill(first, empty("This collector is not a sink.", "A sink forwards packets between two interfaces, removes INT, IFA and IOAM from them, and derives flows and events from it:",
        "hopscope sink --pair eth1:eth2"));
    }
    fill(first);
    numbers.update(figuresOf(data));
    interfaces.update(data);
    for (const [name, each] of parts) each.update(data.counters[name]);
  });
  return { end: stop };
}

/** Sum of counters of a name without the prefix. */
function sum(counters, name, field = "value") {
  return counters.filter((each) => each.name === `hopscope_${name}`).reduce((total, each) => total + Number(each[field]), 0);
}

function figuresOf({ counters, settings, threshold_increase }) {
  const [out, stripped] = [sum(counters.out, "forwarded_frames_total"), sum(counters.out, "stripped_packets_total")];
  const [damaged, dropped, missed] = [sum(counters.kept, "unstripped_packets_total"), sum(counters.dropped, "forward_drops_total"), sum(counters.in, "kernel_drops_total")];
  const bypassed = sum(counters.in, "bypassed_frames_total");
  const unknown = sum(counters.kept, "unknown_int_packets_total");
  const unverified = sum(counters.out, "unverified_packets_total");
  const taken = (field) => sum(counters.in, "frames_total", field);
  return [
    { key: "in", title: "Frames in", value: si(taken("per_second")), unit: "/s", note: `${si(taken("value"))} total` },
    { key: "out", title: "Forwarded", value: si(sum(counters.out, "forwarded_frames_total", "per_second")), unit: "/s", note: `${si(out)} total` },
    { key: "int", title: "Telemetry removed", value: si(sum(counters.out, "stripped_packets_total", "per_second")), unit: "/s", note: settings.strip ? `${si(stripped)} packets total${unverified ? `, ${si(unverified)} with a wrong checksum` : ""}` : "off: sink.strip is false" },
    { key: "kept", title: "Telemetry damaged", value: si(damaged), note: unknown ? `${si(unknown)} more of unknown form` : "forwarded unchanged", mood: damaged ? "warn" : "" },
    { key: "dropped", title: "Not forwarded", value: si(dropped), note: dropped ? `${percent(dropped / taken("value"))} of all` : "all frames are forwarded", mood: dropped ? "bad" : "" },
    { key: "missed", title: "Missed", value: si(missed), note: "the receive ring was full", mood: missed ? "bad" : "" },
    { key: "bypass", title: "Bypass", value: settings.bypass ? "ready" : "off", note: bypassed ? `${si(bypassed)} frames bypassed the workers` : settings.bypass ? "not needed so far" : "without workers no frames are forwarded", mood: settings.bypass ? "" : "warn" },
    { key: "events", title: "Events", value: si(sum(counters.events, "sink_ring_events_total", "per_second")), unit: "/s", note: `${si(sum(counters.events, "sink_ring_events_total"))} total`, href: link("/events") },
    { key: "limits", title: "Thresholds", value: threshold_increase ? `+${percent(threshold_increase)}` : "as set", note: threshold_increase ? "raised: too many events" : settings.quota ? `quota ${si(settings.quota)}/s per type` : "no quota", mood: threshold_increase ? "warn" : "", href: link("/limits") },
  ];
}

function reasonPanel(heading, note) {
  const rows = table({ label: heading, key: (each) => counterName(each), sort: "-value", columns: [
    { name: "counter", title: "Counter", cell: (each) => h("span", null, h("b", null, label(each)), h("span", { class: "soft" }, prose(` ${each.meaning || each.help}`))), value: (each) => counterName(each) },
    { name: "value", title: "Total", number: true, cell: (each) => valueText(each), value: (each) => Number(each.value) },
    { name: "rate", title: "Now", number: true, cell: (each) => `${si(each.per_second)}/s`, value: (each) => each.per_second },
  ] });
  rows.element.classList.add("reasons");
  const rest = h("p", { class: "note" });
  const box = panel(heading, { note, class: "w6", tools: exports(heading.toLowerCase().replaceAll(" ", "-"), { table: rows.export }) });
  fill(box.body, rows.element, rest);
  return { element: box.element, update(counters) {
    const some = counters.filter((each) => Number(each.value));
    rows.element.hidden = !some.length;
    rows.update(some);
    const zero = counters.filter((each) => !Number(each.value)).map(label);
    const advice = some.filter((each) => each.advice && !each.name.includes("_packets_")).map((each) => `${label(each)}: ${each.advice}.`);
    fill(rest, prose(`${advice.join(" ")} ${zero.length ? `${some.length ? "Others are 0" : "All are 0"}: ${zero.join(", ")}.` : ""}`.trim()));
  } };
}

const label = (each) => words(each.label ? Object.values(each.label)[0] : each.name.replace(/^hopscope_|_total$/g, "")).replace(/\b(int|xdp)\b/g, (name) => name.toUpperCase());

function interfacePanel() {
  let before = null;
  const rate = (each, name) => {
    const old = before?.items.get(each.name)?.[name];
    return old === undefined || old === null || !before.seconds ? null : Math.max(0, (Number(each.statistics[name]) - Number(old)) / before.seconds);
  };
  const column = (name, heading) => ({ name, title: heading, number: true, value: (each) => (each.statistics[name] === undefined ? null : Number(each.statistics[name])),
    cell: (each) => {
      if (each.statistics[name] === undefined) return "–";
      const now = rate(each, name);
      return `${si(each.statistics[name])}${now ? `, ${si(now)}/s` : ""}`;
    } });
  const rows = table({ label: "Interfaces", key: (each) => each.name, mood: (each) => (each.ready ? "" : "bad"), columns: [
    { name: "name", title: "Interface", cell: (each) => h("b", null, each.name), value: (each) => each.name },
    { name: "role", title: "Role", cell: (each) => ({ in: "receives", out: "sends", both: "receives and sends" })[each.role] },
    { name: "state", title: "State", cell: (each) => h("span", { class: `chip dot ${each.ready ? "good" : "bad"}` }, each.ready ? "up" : each.detail), value: (each) => each.detail },
    column("rx_packets", "Received"), column("rx_dropped", "Dropped in"), column("rx_errors", "Errors in"), column("tx_packets", "Sent"), column("tx_dropped", "Dropped out"), column("tx_errors", "Errors out"),
  ] });
  const advice = h("p", { class: "note" });
  const box = panel("Interfaces", { note: "packets, from the kernel's counters", tools: exports("sink-interfaces", { table: rows.export }) });
  fill(box.body, rows.element, advice);
  let last = null;
  return { element: box.element, update({ interfaces }) {
    const now = performance.now();
    if (last && now - last.at > 1500) before = { seconds: (now - last.at) / 1000, items: last.items };
    rows.update(interfaces);
    advice.textContent = interfaces.some((each) => !each.ready) ? "An interface is missing: bring it up or create it again; the sink then binds to it automatically." : "";
    if (!last || now - last.at > 1500) last = { at: now, items: new Map(interfaces.map((each) => [each.name, each.statistics])) };
  } };
}
