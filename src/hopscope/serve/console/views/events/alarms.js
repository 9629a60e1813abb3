/** Open alarms: place, time, acknowledgements. */

import { h, fill } from "../../lib/dom.js";
import { link, set } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { ago, amount, flowText, moment, words } from "../../lib/format.js";
import { watch } from "../../lib/live.js";
import { asksCluster, consoleOf, eventLink, isElsewhere } from "../../lib/members.js";
import { alarmPlace, changeButton, empty, operatorNote, panel } from "../../lib/panel.js";
import { mayChange } from "../../lib/session.js";
import { table } from "../../lib/table.js";
import { acknowledge, silence, takeBack } from "./forms.js";

export function alarmPart() {
  let newest = null;
  const rows = table({
    label: "Open alarms", key: (each) => `${each.member ?? ""}/${each.key}`, mood: (each) => (each.silence ? "faint" : "bad"), sort: "-since",
    empty: empty("No alarm is open.", "An alarm starts when a value rises above its limit. Limits are set on the Limits page."),
    columns: [
      { name: "what", title: "Alarm", cell: (each) => (each.id ? h("a", { href: eventLink(each) }, nameOf(each)) : nameOf(each)), value: nameOf },
      { name: "where", title: "Where", phone: "plain", cell: alarmPlace },
      { name: "value", title: "Now", number: true, cell: (each) => h("b", { class: "bad" }, amount(each.value, each.unit)), value: (each) => Number(each.value) },
      { name: "peak", title: "Peak", number: true, cell: (each) => amount(each.peak, each.unit), value: (each) => Number(each.peak) },
      { name: "limit", title: "Limit", number: true, cell: (each) => amount(each.limit, each.unit), value: (each) => Number(each.limit) },
      { name: "since", title: "Since", cell: (each) => (each.since ? h("span", { title: moment(each.since) }, ago(each.since)) : "before the oldest event in history"), value: (each) => each.since },
      { name: "flows", title: "Flows", number: true, cell: flowsOf, value: (each) => each.flows },
      ...(asksCluster() ? [{ name: "member", title: "Member", cell: (each) => each.member ?? "–", value: (each) => each.member }] : []),
      { name: "acknowledged", title: "Acknowledged by", cell: whoOf, value: (each) => `${each.acknowledged?.who ?? ""} ${each.acknowledged?.time ?? ""} ${each.silence ?? ""}` },
    ],
  });
  const hide = h("input", { type: "checkbox", onchange: () => set({ silenced: hide.checked ? "show" : null }) });
  const count = h("span");
  const box = panel("Open alarms", { tools: [h("label", { class: "row" }, hide, count), exports("alarms", { table: rows.export, json: () => newest })] });
  fill(box.body, rows.element, operatorNote("Acknowledging and silencing"));
  let stop = () => {};
  let asked = "";
  return {
    element: box.element,
    ask(query) {
      hide.checked = query.get("silenced") === "show";
      const request = path("/alarms", { limit: 500, silenced: hide.checked ? null : "hide", node: query.get("node"), metric: query.getAll("metric") }, { scope: true });
      if (request === asked) return;
      asked = request;
      stop();
      stop = watch(request, (data, status) => {
        box.element.classList.toggle("stale", status !== 200);
        if (status !== 200) return;
        newest = data;
        box.note(`${data.total} shown`);
        count.textContent = `show silenced (${data.silenced ?? 0})`;
        rows.update(data.items);
      });
    },
    end() {
      asked = "";
      stop();
    },
  };
}

function nameOf(alarm) {
  return alarm.kind === "silent" ? "silent source" : words(alarm.metric);
}

function flowsOf(alarm) {
  if (alarm.flows === null || !alarm.node) return "–";
  const title = alarm.worst.map((each) => `${flowText(each.flow)}: ${amount(each.latency_ns, "ns")}`).join("\n");
  return h("a", { title, href: link("/flows", { node: alarm.node.name ?? alarm.node.id, egress: alarm.port?.id }) }, String(alarm.flows));
}

function whoOf(alarm) {
  const note = alarm.acknowledged;
  if (isElsewhere(alarm)) return whoElsewhere(alarm, note);
  const may = mayChange();
  return h("span", { class: "row" },
    note && h("span", { title: `${moment(note.time)} ${note.note}` }, note.who, note.note && h("span", { class: "faint" }, ` ${note.note}`)),
    may && (note ? changeButton("Unacknowledge", () => takeBack(alarm)) : h("button", { class: "button small", type: "button", onclick: () => acknowledge(alarm) }, "Acknowledge")),
    alarm.silence ? h("span", { class: "chip" }, "silenced") : may && h("button", { class: "button small", type: "button", onclick: () => silence(alarm) }, "Silence"),
    !note && !alarm.silence && !may && "–");
}

/** Each member keeps its own acknowledgements and silences. */
function whoElsewhere({ member, silence: silenced }, note) {
  const there = consoleOf(member);
  return h("span", { class: "row" }, note && h("span", { title: `${moment(note.time)} ${note.note}` }, note.who), silenced && h("span", { class: "chip" }, "silenced"),
    there ? h("a", { href: new URL("/events?part=alarms", there).href }, `at ${member}`) : h("span", { class: "faint" }, `at ${member}`));
}
