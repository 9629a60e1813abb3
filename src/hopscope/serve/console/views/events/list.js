/** The list of events, walked by j and k. */

import { h, fill, keyed, say } from "../../lib/dom.js";
import { go, link, set } from "../../lib/address.js";
import { amount, clock, flowText, moment, words } from "../../lib/format.js";
import { eventMood, howMoved, isMoved } from "../../lib/event_text.js";
import { eventLink } from "../../lib/members.js";
import { placeLink } from "../../lib/panel.js";

const SIGNS = { bad: "▲", good: "▼", "": "•" };

/** @param {(event: any, what: "acknowledge" | "silence") => void} act */
export function eventList(act) {
  const element = h("ol", { class: "events", "aria-label": "Events, newest first" });
  element.addEventListener("click", (event) => {
    if (event.target.closest("a, button") || String(getSelection())) return;
    const row = event.target.closest("li");
    if (row) go(row.dataset.href);
  });

  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches(".events > li")) go(event.target.dataset.href);
  });

  function move(step) {
    const now = document.activeElement?.closest?.(".events > li");
    const to = now ? now[step > 0 ? "nextElementSibling" : "previousElementSibling"] : element.firstElementChild;
    to?.focus();
    to?.scrollIntoView({ block: "nearest" });
  }
  const chosen = () => document.activeElement?.closest?.(".events > li")?.__row ?? null;
  return {
    element, move, chosen,
    act: (what) => chosen() && act(chosen().event, what),
    /** @param {any[]} rows of feed.rowsOf */
    update: (rows) => keyed(element, rows, (row) => row.key, make, write),
  };
}

function make(row) {
  const { event } = row;
  const mood = eventMood(event);
  const href = eventLink(event);
  const element = h("li", { tabindex: "-1", class: mood, data: { href } },
    h("a", { class: "when", href, title: moment(event.time) }, h("time", { datetime: event.time })),
    h("span", { class: "what" },
      h("button", { type: "button", class: mood || "soft", title: "Only this kind", onclick: () => set({ kind: event.kind, all: null }, true) },
        h("span", { "aria-hidden": "true" }, `${SIGNS[mood]} `), words(event.kind)), " ", h("span", { class: "value" }, valueOf(event))),
    h("span", { class: "where" }, event.source ? sourceOf(event) : event.node ? placeLink(event.node, event.port, event.queue, event.metric) : null,
      event.path && !event.node && h("span", { class: "soft" }, event.path.map((node) => node.name ?? node.id).join(" › "))),
    h("span", { class: "whose" }, event.flow && h("a", { href: link(["flows", event.flow.id]) }, flowText(event.flow))),
    h("span", { class: "more" }, h("span", { class: "chip count", hidden: true }), event.member && h("span", { class: "faint" }, event.member),
      event.silence && h("span", { class: "chip", title: "Silenced" }, "silenced")));
  write(element, row);
  return element;
}

function write(element, row) {
  element.__row = row;
  const joined = `${row.count} ${row.event.time} ${row.first}`;
  if (element.__joined === joined) return;
  element.__joined = joined;
  const chip = element.querySelector(".count");
  const time = element.querySelector("time");
  chip.hidden = row.count < 2;
  if (chip.hidden) return say(time, clock(row.event.time, 3));
  say(chip, `× ${row.count}`);
  chip.title = `${moment(row.first)} – ${moment(row.last)}`;
  fill(time, clock(row.event.time, 1), h("small", null, ` from ${clock(row.first, 1)}`));
}

function sourceOf(event) {
  return [h("button", { type: "button", class: "plain", title: "Only this network", onclick: () => set({ prefix: event.source.address }, true) }, event.source.address),
    event.source.node && [" ", placeLink(event.source.node, null)], h("span", { class: "faint" }, ` hw ${event.source.hw_id}`)];
}

/** The value, and the limit or earlier value it is compared with. */
function valueOf(event) {
  const metric = event.metric === "none" ? "" : `${words(event.metric)} `;
  const value = amount(event.value, event.unit);
  const previous = amount(event.previous, event.unit);
  if (event.metric === "flow_path" || event.kind === "loop") return event.kind === "flow_record" ? `${event.value} packets` : "";
  if (isMoved(event)) return howMoved(event);
  if (event.kind === "gap") return `${value} reports lost`;
  if (event.kind === "silent" || event.kind === "returned") return `for ${amount(event.previous, "ns")}`;
  if (event.kind === "drop") return `reason ${value}`;
  if (event.kind === "cleared" && event.reason && event.reason !== "value") return `${metric}${words(event.reason)}`;
  if (["raised", "threshold", "cleared"].includes(event.kind)) {
    return `${metric}${value} ${(event.kind === "cleared") !== (event.metric === "label_coverage") ? "<" : ">"} ${previous}`;
  }
  if (event.kind === "change") return `${metric}${previous} → ${value}`;
  return `${metric}${value}`;
}
