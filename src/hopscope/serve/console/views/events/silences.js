/** Silences that have not ended. */

import { h, fill } from "../../lib/dom.js";
import { path } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { moment, ms, span, words } from "../../lib/format.js";
import { watch } from "../../lib/live.js";
import { changeButton, empty, operatorNote, panel } from "../../lib/panel.js";
import { mayChange } from "../../lib/session.js";
import { table } from "../../lib/table.js";
import { endSilence, silence } from "./forms.js";

export function silencePart() {
  const rows = table({
    label: "Silences", key: (each) => String(each.id),
    empty: empty("Nothing is silenced.", "A silence hides events here and suppresses alerts, for example during maintenance."),
    columns: [
      { name: "what", title: "Events", cell: (each) => matcherText(each) },
      { name: "until", title: "Ends", cell: (each) => h("span", { title: moment(each.until) }, `in ${span(Math.max(0, ms(each.until) - Date.now()) / 1000)}`), value: (each) => each.until },
      { name: "note", title: "Note", cell: (each) => each.note || "–" },
      { name: "who", title: "Created by", cell: (each) => h("span", { title: moment(each.time) }, each.who), value: (each) => each.who },
      { name: "end", title: "", sorts: false, cell: (each) => changeButton("End", () => endSilence(each.id)), value: (each) => each.id },
    ].filter((each) => each.name !== "end" || mayChange()),
  });
  const box = panel("Silences", { note: "hidden here, suppressed in alerts; still detected, kept and exported",
    tools: [mayChange() && h("button", { class: "button", type: "button", onclick: () => silence(null) }, "Silence events"), exports("silences", { table: rows.export })] });
  fill(box.body, rows.element, operatorNote("Silencing events"));
  let stop = null;
  return {
    element: box.element,
    ask() {
      stop ??= watch(path("/silences"), (data, status) => status === 200 && rows.update(data.items));
    },
    end() {
      stop?.();
      stop = null;
    },
  };
}

/** Which events a silence is about. */
function matcherText(each) {
  const parts = [each.kind && words(each.kind), each.metric && words(each.metric), each.node && `at ${each.node.name ?? `switch ${each.node.id}`}`,
    each.port !== null && `port ${each.port}`, each.prefix && `of ${each.prefix}`];
  return parts.filter(Boolean).join(", ");
}
