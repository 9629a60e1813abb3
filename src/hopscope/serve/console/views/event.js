/** One event: what happened, before and after it, whose traffic, and the report that caused it. */

import { h, fill } from "../lib/dom.js";
import { link } from "../lib/address.js";
import { get, path } from "../lib/api.js";
import { ago, amount, clock, flowText, moment, ms, words } from "../lib/format.js";
import { eventMood, eventText, valuesOf } from "../lib/event_text.js";
import { keys } from "../lib/keys.js";
import { asksCluster, eventLink, isElsewhere } from "../lib/members.js";
import { changeButton, empty, panel, placeLink, trouble } from "../lib/panel.js";
import { mayChange } from "../lib/session.js";
import { evidencePanel } from "./event/evidence.js";
import { acknowledge, silence, takeBack } from "./events/forms.js";

export const title = ({ parts }) => `Event ${parts[1]}`;

export async function show(place, { parts, query }) {
  const id = parts[1];
  const member = query.get("member");
  const far = asksCluster() || isElsewhere({ member });  // at this member, the same number is another event
  const ask = (more) => get(path(`/events/${encodeURIComponent(id)}${more}`, far ? { member, scope: "cluster" } : {}));
  const again = () => fillIn();
  let alarm = null;
  let found = null;
  const end = keys({
    a: { text: "Acknowledge its alarm", run: () => alarm && acknowledge(alarm, again) },
    s: { text: "Silence its place", run: () => found && silence(found, again) },
  });

  async function fillIn() {
    try {
      found = await ask("");
    } catch (error) {
      return void fill(place, error.status === 404 ? empty(`History has no event ${id}.`, "It may have been deleted: see history.keep_days.") : trouble(error, again));
    }
    alarm = found.alarm;
    const evidence = h("div");
    fill(place,
      h("div", { class: "view-head" }, h("h1", null, eventText(found)), h("span", { class: "grow" }),
        mayChange() && [alarm && !alarm.acknowledged && h("button", { class: "button", type: "button", onclick: () => acknowledge(alarm, again) }, "Acknowledge"),
          h("button", { class: "button", type: "button", onclick: () => silence(found, again) }, "Silence its place")]),
      h("div", { class: "grid" }, sized(factsPanel(found, alarm, again), "w6"), sized(aroundPanel(found), "w6")), evidence);
    fill(evidence, await evidencePanel(found, ask));
  }

  await fillIn();
  return { end };
}

function sized(element, name) {
  element.classList.add(name);
  return element;
}

function factsPanel(event, alarm, again) {
  const box = panel("What happened");
  const facts = h("dl", { class: "facts" });
  const add = (name, ...content) => content.some((each) => each !== null && each !== undefined && each !== "" && each !== false) && facts.append(h("dt", null, name), h("dd", null, ...content));
  add("Time", moment(event.time), h("span", { class: "faint" }, ` ${ago(event.time)}`));
  add("At the switch", event.switch_ns !== null && switchTime(event));
  add("Kind", h("a", { href: link("/events", { kind: event.kind }) }, h("b", { class: eventMood(event) }, words(event.kind))));
  add("Metric", event.metric !== "none" && h("a", { href: link("/events", { metric: event.metric }) }, words(event.metric)));
  for (const [name, text] of valuesOf(event)) add(name, text);
  add("Reason", event.reason && words(event.reason));
  add("Place", event.node && placeLink(event.node, event.port, event.queue, event.metric), event.node && event.port && h("a", { href: link("/events", { node: event.node.name ?? event.node.id, port: event.port.id }) }, " its events"));
  add("Path", event.path && event.path.map((node, at) => [at > 0 && " › ", placeLink(node, null)]));
  add("Flow", event.flow && h("a", { href: link(["flows", event.flow.id]) }, flowText(event.flow)), event.flow && h("span", { class: "faint" }, event.live ? " live" : " no longer live"),
    event.flow && h("a", { href: link("/events", { flow: event.flow.id }) }, " its events"));
  add("Source", event.source && `${event.source.address} hw ${event.source.hw_id} `, event.source?.node && placeLink(event.source.node, null));
  add("Collector", event.member);
  add("Number", h("span", { class: "mono" }, event.id));
  fill(box.body, facts, alarm && alarmBox(alarm, again));
  return box.element;
}

/** A switch's clock counts from its own beginning, or from 1970. */
function switchTime(event) {
  const number = Number(event.switch_ns);
  return number > 1e18 ? moment(number / 1e6) : `${event.switch_ns} ns by its clock`;
}

function alarmBox(alarm, again) {
  const note = alarm.acknowledged;
  return h("div", { class: "message bad alarm-box" }, h("b", null, "Open now"), alarm.since && ` since ${clock(alarm.since)} (${ago(alarm.since)})`,
    `: ${amount(alarm.value, alarm.unit)}, peak ${amount(alarm.peak, alarm.unit)}`, alarm.limit !== null && `, limit ${amount(alarm.limit, alarm.unit)}`, ". ",
    note ? [`Acknowledged by ${note.who} at ${clock(note.time)}`, note.note && `: ${note.note}`, " ",
      mayChange() && !isElsewhere(alarm) && changeButton("Unacknowledge", () => takeBack(alarm, again))] : "Not acknowledged.",
    alarm.silence && " It is silenced.");
}

function aroundPanel(event) {
  const where = event.node ? "at this place" : "of this flow";
  const box = panel("Before and after", { note: `${where}, all kinds` });
  const rows = [...event.after].reverse().concat([{ ...event, here: true }], event.before);
  const row = (each) => {
    const shift = ms(each.time) - ms(event.time);
    const content = [h("time", { datetime: each.time, title: moment(each.time) }, each.here ? clock(each.time, 3) : !shift ? "same time" : `${shift > 0 ? "+" : "−"}${amount(Math.abs(shift) * 1e6, "ns")}`), h("span", null, eventText(each))];
    return h("li", { class: each.here ? "here" : eventMood(each) }, each.here ? content : h("a", { href: eventLink(each) }, content));
  };
  if (rows.length === 1) fill(box.body, empty("History has no other event here."));
  else fill(box.body, h("ol", { class: "around" }, rows.map(row)));
  return box.element;
}
