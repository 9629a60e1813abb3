/** Tracked flows: their newest and previous path, and which flows are tracked. */

import { h, fill } from "../../lib/dom.js";
import { path, send } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { ago, duration, flowText, nodeName, portName, sentence, si } from "../../lib/format.js";
import { watch } from "../../lib/live.js";
import { empty, operatorNote, panel, toast } from "../../lib/panel.js";
import { followSession, mayChange } from "../../lib/session.js";
import { table } from "../../lib/table.js";

const pathText = (hops) => (hops ?? []).map((hop) => `${nodeName(hop.node)} · ${portName(hop.egress_port)}`).join(" → ");

export function trackedPanel() {
  let known = null;
  const rules = h("ul", { class: "row" });
  const add = h("div");
  const rows = table({
    label: "Tracked flows", key: (each) => flowText(each.flow), sort: "-packets", empty: empty("No tracked packet has arrived.", "All switches on the path of a tracked flow label one in N of its packets."),
    columns: [
      { name: "flow", title: "Flow", cell: (each) => flowText(each.flow) },
      { name: "latency", title: "Latency", number: true, ns: true, cell: (each) => duration(each.latency_ns), value: (each) => Number(each.latency_ns) },
      { name: "rate", title: "Packets", number: true, cell: (each) => `${si(each.packets_per_second)}/s`, value: (each) => each.packets_per_second },
      { name: "packets", title: "Total", number: true, cell: (each) => si(each.packets), value: (each) => Number(each.packets) },
      { name: "age", title: "Last", number: true, ns: true, cell: (each) => `${duration(each.age_ns)} ago`, value: (each) => Number(each.age_ns) },
      { name: "changes", title: "Path changes", number: true, cell: (each) => (Number(each.changes) ? `${si(each.changes)}, ${ago(each.changed)}` : "0"), value: (each) => Number(each.changes) },
      { name: "path", title: "Path", cell: (each) => h("span", null, pathText(each.path), each.previous_path && h("span", { class: "faint path-before" }, `previously: ${pathText(each.previous_path)}`)), value: (each) => pathText(each.path) + pathText(each.previous_path) },
    ],
  });
  const box = panel("Tracked flows", { note: "every switch on the path labels one packet in N", tools: exports("tracked-flows", { table: rows.export }) });
  fill(box.body, add, rules, rows.element);

  function drawRules(found) {
    known = found;
    fill(rules, found.length ? found.map((each) => h("li", { class: "chip" }, `${each.src} → ${each.dst}, one in ${each.every}`,
      mayChange() && h("button", { type: "button", "aria-label": `Stop tracking ${each.src} to ${each.dst}`, onclick: () => change("DELETE", path("/labels/tracked", { src: each.src, dst: each.dst })) }, "✕")))
      : h("li", { class: "note" }, "No flow is tracked."));
  }

  async function change(method, address, body) {
    try {
      drawRules(await send(method, address, body));
      return true;
    } catch (error) {
      toast(sentence(error.message), "bad");
      return false;
    }
  }

  function drawForm() {
    if (!mayChange()) return void fill(add, operatorNote("Tracking a flow"));
    const field = (name, placeholder, width) => h("input", { name, placeholder, "aria-label": placeholder, required: true, size: width });
    const [src, dst] = [field("src", "Sender's address", 18), field("dst", "Receiver's address", 18)];
    const every = h("input", { type: "number", min: 1, value: 100, "aria-label": "One packet in" });
    fill(add, h("form", { class: "row", onsubmit: async (event) => {
      event.preventDefault();
      if (await change("POST", path("/labels/tracked"), { src: src.value.trim(), dst: dst.value.trim(), every: Number(every.value) })) src.value = dst.value = "";
    } }, src, dst, h("label", { class: "row" }, "one packet in", every), h("button", { class: "button" }, "Track")));
  }

  drawForm();
  const ends = [
    followSession(() => {
      drawForm();
      if (known) drawRules(known);
    }),
    watch(path("/labels/tracked"), (data, status) => {
      if (status === 200) drawRules(data);
      else fill(rules, h("li", { class: "note" }, sentence(data.error)));
      add.hidden = status !== 200;
    }),
    watch(path("/labels/flows", { limit: 100 }, { scope: true }), (data, status) => status === 200 && rows.update(data.items)),
  ];
  return { element: box.element, end: () => ends.forEach((each) => each()) };
}
