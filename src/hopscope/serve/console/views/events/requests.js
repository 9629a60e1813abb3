/** The filters of the events page: parameters of the address, and the API requests they stand for. */

import { here } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { range } from "../../lib/range.js";

export const ROUTINE = ["push", "value", "change", "new_key", "flow_record", "label_record"];
export const NOTABLE = ["raised", "cleared", "threshold", "path_change", "loop", "drop", "queue_report", "silent", "returned", "gap", "adapted", "moved", "source_moved"];
/** Kinds that are information, as `present.severity` has them. */
const INFO = new Set([...ROUTINE, "path_change", "adapted", "moved", "source_moved"]);
export const METRICS = ["flow_path", "flow_latency", "hop_latency", "queue_occupancy", "queue_congestion", "link_utilization", "buffer_occupancy", "label_latency", "label_occupancy", "label_age", "label_coverage"];
const PAGE = 100;
/** Seconds of the chart while no range is chosen. */
const LIVE_SECONDS = 900;

/** Kinds selected by the address: the ones it names, otherwise the notable ones, or all. */
function kindsOf(query) {
  const named = query.getAll("kind");
  const kinds = named.length ? named : query.get("all") ? [...NOTABLE, ...ROUTINE] : NOTABLE;
  const severity = query.get("severity");
  return severity ? kinds.filter((each) => INFO.has(each) === (severity === "info")) : kinds;
}

/** API parameters for the filters. */
function filtersOf(query) {
  const kinds = kindsOf(query);
  return {
    kind: kinds.length === NOTABLE.length + ROUTINE.length ? null : kinds.join(",") || "none",
    metric: query.getAll("metric"), node: query.get("node"), port: query.getAll("port"), flow: query.get("flow"), prefix: query.get("prefix"),
  };
}

/** Times of the API: those of the address; `whole`: with a beginning, also while no range is chosen. */
function timesOf(query, whole = false) {
  const { from, to, live, chosen } = range(LIVE_SECONDS);
  const text = (name, at) => (/^-\d+[smhd]$/.test(query.get(name) ?? "") ? query.get(name).slice(1) : new Date(at).toISOString());
  return {
    since: chosen ? text("from", from) : whole ? `${LIVE_SECONDS}s` : null,
    until: chosen && !live ? text("to", to) : null,
  };
}

/** The GET of a page of events. */
export function pageOf(query, after = null) {
  return path("/events", { ...filtersOf(query), ...timesOf(query), limit: PAGE, after }, { scope: true });
}

/** The GET of the chart. */
export function histogramOf(query) {
  return path("/events/histogram", { ...filtersOf(query), ...timesOf(query, true), buckets: 96 }, { scope: true });
}

/** Whether new events belong to the range shown. */
export function isLive() {
  const { query } = here();
  return (query.get("to") ?? "now") === "now";
}
