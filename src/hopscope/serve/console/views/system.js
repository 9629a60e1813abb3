/** System: processes, sources, destinations, history, counters, the cluster, and who changed what. */

import { h, fill } from "../lib/dom.js";
import { here, param, set } from "../lib/address.js";
import { path } from "../lib/api.js";
import { watch } from "../lib/live.js";
import { empty, tabs, trouble } from "../lib/panel.js";
import { clusterPart } from "./system/cluster.js";
import { counterPart } from "./system/counters.js";
import { destinationPart } from "./system/destinations.js";
import { historyPart } from "./system/history.js";
import { processPart } from "./system/processes.js";
import { sourcePart } from "./system/sources.js";
import { accessPart, auditPart } from "./system/access.js";

export const title = "System";
const PARTS = {
  processes: ["Processes", processPart], sources: ["Sources", sourcePart], destinations: ["Destinations", destinationPart], history: ["History", historyPart],
  counters: ["Counters", counterPart], cluster: ["Cluster", clusterPart], audit: ["Changes", auditPart], access: ["Sessions", accessPart],
};

export function show(place) {
  /** The part of the address: of its path, as /system/access, unless its query has one. */
  const wanted = () => [param("part"), here().parts[1]].find((each) => PARTS[each]) ?? "processes";
  let part = null;
  let shown = "";
  const choice = tabs("Part of the system", Object.entries(PARTS).map(([key, [text]]) => [key, text]), wanted(), (value) => {
    set({ part: value, q: null, sort: null }, true);
  });
  const wrong = h("div");
  const body = h("div", { class: "grid" });
  fill(place, choice.element, wrong, body);
  let newest = null;

  function change() {
    choice.draw(wanted());
    if (wanted() !== shown) {
      part?.end?.();
      shown = wanted();
      part = PARTS[shown][1]();
      fill(body, part.elements);
      if (newest) part.update?.(newest);
    } else part.change?.();
  }

  const stop = watch(path("/system"), (data, status) => {
    if (status !== 200) return void fill(wrong, trouble(new Error(data.error)));
    newest = data;
    fill(wrong, data.running ? null : empty("No collector is running on this data folder.",
      `History can still be queried; the values below are from the last run. Start a collector with this data folder, ${data.data}:`, "hopscope collect"));
    part?.update?.(data);
  });
  change();
  return { end() {
    stop();
    part?.end?.();
  }, change };
}
