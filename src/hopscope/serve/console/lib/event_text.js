/** An event in one line: kind, metric and value, place, flow. */

import { h } from "./dom.js";
import { amount, flowText, moment, nodeName, portName, queueName, words } from "./format.js";

const BAD = new Set(["raised", "threshold", "loop", "drop", "silent", "gap"]);
const GOOD = new Set(["cleared", "returned"]);
const SIGNS = { bad: "▲", good: "▼", "": "•" };

/** "bad", "good" or "". */
export function eventMood(event) {
  return BAD.has(event.kind) ? "bad" : GOOD.has(event.kind) ? "good" : "";
}

/** Nodes: a sign, the kind, and what happened. */
export function eventText(event) {
  const mood = eventMood(event);
  return [h("b", { class: mood }, h("span", { "aria-hidden": "true" }, SIGNS[mood] + " "), words(event.kind)), " ", h("span", null, whatOf(event))];
}

/** Whether a flow or source moved here from another member of the cluster. */
export function isMoved(event) {
  return event.kind === "moved" || event.kind === "source_moved";
}

/** How long it had been at the other member. */
export function howMoved(event) {
  return `here, last seen at another member ${amount(event.value, "ns")} earlier`;
}

/** [name, text] of the values of an event, by what they are in its kind. */
export function valuesOf(event) {
  const value = amount(event.value, event.unit);
  const previous = amount(event.previous, event.unit);
  if (isMoved(event)) return [["Moved", howMoved(event)]];
  if (event.kind === "adapted") return [["Factor of limits", String(event.value / 1000)], ["Before", String(event.previous / 1000)]];
  if (event.kind === "drop") return [["Drop reason", String(event.value)]];
  if (event.kind === "gap") return [["Reports lost", value], ["First number lost", String(event.previous)]];
  if (event.kind === "silent") return [["Last report", `${amount(event.previous, "ns")} earlier`]];
  if (event.kind === "returned") return [["Silent for", amount(event.previous, "ns")]];
  if (event.kind === "flow_record" && event.metric === "flow_path") return [["Reports", value], ["First report", moment(Number(event.previous) / 1e6)]];
  if (event.kind === "flow_record") return [["Mean", value], ["Latest", previous]];
  if (event.metric === "flow_path" || event.metric === "none") return [];  // hashes, or nothing
  if (event.kind === "new_key" || (event.kind === "cleared" && event.reason !== "value")) return [["Value", value]];
  return [["Value", value], [["raised", "threshold", "cleared"].includes(event.kind) ? "Limit" : "Compared with", previous]];
}

/** What happened, as text. */
export function whatOf(event) {
  const value = amount(event.value, event.unit);
  const previous = amount(event.previous, event.unit);
  const where = event.node ? ` at ${[nodeName(event.node), portName(event.port)].filter(Boolean).join(" · ")}${queueName(event.queue, event.metric)}` : "";
  const flow = event.flow ? ` · ${flowText(event.flow)}` : "";
  const metric = words(event.metric);
  if (event.source) {
    const lost = event.kind === "gap" ? `: ${value} reports lost` : isMoved(event) ? `: ${howMoved(event)}` : "";
    return `${event.source.address}${event.source.node ? ` ${nodeName(event.source.node)}` : ""} hw ${event.source.hw_id}${lost}`;
  }
  if (["raised", "threshold", "cleared"].includes(event.kind)) {
    if (event.reason && event.reason !== "value") return `${metric} ${words(event.reason)}${where}${flow}`;
    const below = (event.kind === "cleared") !== (event.metric === "label_coverage");
    return `${metric} ${value} ${below ? "<" : ">"} ${previous}${where}${flow}`;
  }
  if (event.path) return `${event.path.map(nodeName).join(" › ")}${flow}`;
  if (isMoved(event)) return `${howMoved(event)}${flow}`;
  if (event.kind === "drop") return `reason ${event.value}${where}${flow}`;
  if (event.kind === "change") return `${metric} ${previous} → ${value}${where}${flow}`;
  if (event.kind === "adapted") return `limits × ${event.value / 1000}`;
  return `${event.metric === "none" ? "" : `${metric} ${value}`}${where}${flow}`.trim();
}
