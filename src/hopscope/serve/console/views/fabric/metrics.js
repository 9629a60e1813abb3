/** The metrics that can colour the map, and their values as text. */

import { amount } from "../../lib/format.js";

/** Name in the API, and on the page. */
export const METRICS = [
  ["hop_latency", "Latency"],
  ["queue_occupancy", "Queues"],
  ["link_utilization", "Utilisation"],
  ["drops", "Drops"],
  ["label_age", "Label age"],
];
export const UNITS = { hop_latency: "ns", label_age: "ns" };

/** A value with its unit; occupancy and utilisation are as the switches send them. */
export function valueText(value, metric) {
  return amount(value, UNITS[metric] ?? null);
}

/** The name of a metric, in words. */
export function titleOf(metric) {
  return METRICS.find(([name]) => name === metric)?.[1] ?? metric;
}

/** Why ports are hot: some are above the limit or have drops, others have an alarm that is not cleared yet. */
export function hotText({ hot, above, limit, metric }) {
  const ports = `▲ ${hot} ${hot === 1 ? "port" : "ports"}`;
  if (above === hot) return `${ports} ${metric === "drops" ? "with drops" : "above the limit"}`;
  if (!above) return `${ports} in alarm${limit === null ? "" : ", not above the limit now"}`;
  return `${ports} hot: ${above} above the limit, ${hot - above} in alarm`;
}
