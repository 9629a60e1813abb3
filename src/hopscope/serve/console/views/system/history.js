/** History and its disk: space, retention, how far it reaches back, the lake. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { ago, bytes, clock, percent, si } from "../../lib/format.js";
import { empty, figures, panel } from "../../lib/panel.js";

export function historyPart() {
  const numbers = figures();
  const disk = panel("Disk of the data folder", { class: "w6" });
  const kept = panel("Retention", { class: "w6" });
  const lake = panel("Lake", { class: "w6", note: "shared history of several collectors" });
  const wrong = h("div", { class: "w12" });
  return { elements: [wrong, numbers.element, disk.element, kept.element, lake.element], update(data) {
    const history = data.history;
    if (!history) return void fill(wrong, empty("The data folder cannot be read.", data.data));
    const used = history.total_bytes - history.free_bytes;
    const size = Object.values(history.parts).reduce((sum, each) => sum + each.bytes, 0);
    const low = history.kept_bytes !== null && history.free_bytes < history.kept_bytes;
    fill(wrong, history.failing && h("div", { class: "message bad", role: "alert" }, h("b", null, "The disk does not accept events. "),
      `${si(history.waiting_events)} wait in memory; the oldest are lost first. Free space on the disk of ${data.data}.`));
    numbers.update([
      { key: "state", title: "History", value: history.failing ? "failing" : "writing", mood: history.failing ? "bad" : "good", note: history.failing ? "events wait in memory" : "events are on disk" },
      { key: "oldest", title: "Reaches back", value: history.oldest ? ago(history.oldest).replace(" ago", "") : "–", note: history.oldest ? `since ${clock(history.oldest, 0)}` : "no event yet" },
      { key: "free", title: "Free", value: bytes(history.free_bytes), note: `of ${bytes(history.total_bytes)}`, mood: low ? "warn" : "" },
      { key: "size", title: "Size of history", value: bytes(size) },
      { key: "lost", title: "Events lost", value: si(history.lost_events), mood: Number(history.lost_events) ? "bad" : "", note: "the disk did not accept them in time", href: link("/system", { part: "counters", q: "journal_lost" }) },
      { key: "damaged", title: "Damaged files", value: String(history.damaged_files), mood: history.damaged_files ? "warn" : "", note: "set aside as *.damaged" },
    ]);
    const bar = (part, of, mood) => h("span", { class: `wide-meter ${mood}` }, h("i", { style: { width: `${Math.min(100, (100 * part) / (of || 1))}%` } }));
    fill(disk.body, bar(used, history.total_bytes, low ? "hot" : ""), h("dl", { class: "facts" }, h("dt", null, "used"), h("dd", null, `${bytes(used)}, ${percent(used / history.total_bytes)}`),
      h("dt", null, "kept free"), h("dd", null, history.kept_bytes === null ? "unknown without a collector" : `${bytes(history.kept_bytes)}: below it, the oldest files are deleted; below half of it, no events are written`),
      Object.entries(history.parts).map(([name, each]) => [h("dt", null, name), h("dd", null, `${bytes(each.bytes)} in ${each.files.toLocaleString("en")} files`)])));
    fill(kept.body, history.retention ? h("dl", { class: "facts" }, h("dt", null, "history.keep_days"), h("dd", null, `${history.retention.keep_days} days`), h("dt", null, "history.keep_bytes"), h("dd", null, bytes(history.retention.keep_bytes)),
      h("dt", null, "history.keep_free"), h("dd", null, typeof history.retention.keep_free === "number" ? bytes(history.retention.keep_free) : history.retention.keep_free)) : h("p", { class: "note" }, "No collector is running: nothing is deleted."));
    fill(lake.body, data.lake ? lakeFacts(data.lake) : empty("No lake is configured.", "With a lake, no events are lost with a disk, and several collectors share one history:", "[lake]\ncatalog = \"postgresql://hopscope@127.0.0.1/lake\"\ndata = \"/srv/lake\""));
  } };
}

function lakeFacts(lake) {
  const problems = [lake.problem, lake.maintenance?.problem, ...(lake.maintenance?.notes ?? [])].filter(Boolean);
  return h("dl", { class: "facts" }, h("dt", null, "place"), h("dd", null, h("code", null, lake.place)), h("dt", null, "state"), h("dd", null, h("span", { class: `chip dot ${lake.state === "writing" ? "good" : "warn"}` }, lake.state)),
    h("dt", null, "only on this disk"), h("dd", null, `${si(lake.lag_events)} events${Number(lake.lag_events) ? `, the oldest for ${Math.round(lake.lag_seconds)} s` : ""}`), h("dt", null, "lost"), h("dd", { class: Number(lake.lost_events) ? "bad" : null }, si(lake.lost_events)),
    problems.length ? [h("dt", null, "problems"), h("dd", { class: "bad" }, problems.join("; "))] : null);
}
