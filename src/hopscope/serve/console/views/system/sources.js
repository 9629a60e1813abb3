/** Sources: whether the data of each is complete: lost and duplicate reports, silence. */

import { h, fill } from "../../lib/dom.js";
import { link, param, set } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { ago, duration, moment, nodeName, percent, si } from "../../lib/format.js";
import { watch } from "../../lib/live.js";
import { noReports, panel } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

const SORTS = { lost: "lost", received: "received", seen: "last_seen", address: "address" };
const PAGE = 200;
const share = (each) => Number(each.lost) / (Number(each.lost) + Number(each.received) || 1);
const verdict = (each) => (each.silent ? "silent" : Number(each.lost) ? "losing reports" : Number(each.duplicate) > Number(each.received) / 100 ? "duplicates" : "complete");

export function sourcePart() {
  let end = () => {};
  const note = h("p", { class: "note" });
  const more = h("button", { class: "button", type: "button", onclick: () => {
    set({ limit: Number(param("limit", String(PAGE))) + PAGE });
    change();
  } }, "Show more");
  const rows = table({
    label: "Sources", key: (each) => `${each.address}/${each.node.id}/${each.hw_id}`, mood: (each) => (each.silent || share(each) > 0.001 ? "bad" : ""), sort: param("sort", "-lost"),
    empty: noReports("No source has reported yet.", "Point a switch at the address under Processes, or send simulated reports:"),
    onSort(sort) {
      set({ sort: sort === "-lost" ? null : sort });
      change();
    },
    columns: [
      { name: "address", title: "Source", cell: (each) => h("b", null, each.address), value: (each) => each.address },
      { name: "node", title: "Switch", sorts: false, cell: (each) => h("a", { href: link("/fabric", { selected: each.node.name ?? each.node.id }) }, nodeName(each.node)), value: (each) => nodeName(each.node) },
      { name: "hw", title: "hw id", number: true, sorts: false, cell: (each) => each.hw_id },
      { name: "verdict", title: "Complete?", sorts: false, cell: (each) => h("span", { class: `chip dot ${each.silent || share(each) > 0.001 ? "bad" : Number(each.lost) ? "warn" : "good"}` }, verdict(each)), value: verdict },
      { name: "received", title: "Received", number: true, cell: (each) => si(each.received), value: (each) => Number(each.received) },
      { name: "lost", title: "Lost", number: true, help: "Gaps in sequence numbers. For all members, an upper bound if a member was restarted: it may have received some of these reports before", cell: (each) => (Number(each.lost) ? `${each.lost_at_most ? "at most " : ""}${si(each.lost)}, ${percent(share(each))}` : "0"), value: (each) => Number(each.lost) },
      { name: "moved", title: "Moved", number: true, sorts: false, help: "Missing at this member of a cluster, but received by another; not lost", cell: (each) => si(each.moved), value: (each) => Number(each.moved) },
      { name: "duplicate", title: "Duplicate", number: true, sorts: false, cell: (each) => si(each.duplicate), value: (each) => Number(each.duplicate) },
      { name: "reordered", title: "Reordered", number: true, sorts: false, cell: (each) => si(each.reordered), value: (each) => Number(each.reordered) },
      { name: "clock", title: "Clock offset", number: true, ns: true, sorts: false, help: "Collector time minus switch time: the smallest difference among the newest events, including the time a report takes to arrive. Large if the switch's clock starts at boot.",
        cell: (each) => (each.clock_offset_ns === null || each.clock_offset_ns === undefined ? "–" : Math.abs(Number(each.clock_offset_ns)) > 86_400e9 ? "own epoch" : duration(each.clock_offset_ns)), value: (each) => each.clock_offset_ns },
      { name: "seen", title: "Last report", number: true, cell: (each) => h("span", { title: moment(each.last_seen) }, ago(each.last_seen)), value: (each) => each.last_seen },
      { name: "first", title: "First report", number: true, sorts: false, cell: (each) => h("span", { title: moment(each.first_seen) }, ago(each.first_seen)), value: (each) => each.first_seen },
    ],
  });
  const box = panel("Sources", { note: "one row per sequence space: address, switch, hw id", tools: exports("sources", { table: rows.export }) });
  fill(box.body, note, rows.element, more);

  function change() {
    end();
    const sort = param("sort", "-lost");
    rows.setSort(sort);
    const limit = Math.min(1000, Number(param("limit", String(PAGE))));
    end = watch(path("/sources", { sort: SORTS[sort.replace(/^-/, "")] ?? "lost", order: sort.startsWith("-") ? "desc" : "asc", limit }, { scope: true }), (data, status) => {
      if (status !== 200) return void (note.textContent = data.error);
      rows.update(data.items);
      more.hidden = data.items.length >= data.total || limit >= 1000;
      const silent = data.items.filter((each) => each.silent).length;
      const losing = data.items.filter((each) => Number(each.lost)).length;
      note.textContent = !data.total ? "" : `${si(data.total)} source${data.total === 1 ? "" : "s"}. ${silent ? `${silent} silent` : "None is silent"}; ${losing ? `${losing} lost reports: their flows and queues may have been worse than shown` : "there are no sequence gaps"}.`;
    });
  }
  change();
  return { elements: [box.element], change, end: () => end() };
}
