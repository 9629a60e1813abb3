/** The newest notable events; similar ones within a second are joined. */

import { h, keyed, say } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { clock, si, words } from "../../lib/format.js";
import { eventLink } from "../../lib/members.js";
import { empty, panel } from "../../lib/panel.js";
import { eventMood, eventText } from "../../lib/event_text.js";

export function eventPanel() {
  const box = panel("Notable events", { note: "newest first", href: link("/events") });
  const kinds = h("div", { class: "tabs kinds", role: "group", "aria-label": "Events of one kind" });
  const list = h("ol", { class: "feed scroll" });
  const none = empty("Nothing notable has happened yet.");
  box.body.append(kinds, list, none);
  return {
    element: box.element,
    update({ notable, missed_events, kinds: counted }) {
      keyed(kinds, counted, (each) => each.kind, (each) => h("a", { href: link("/events", { kind: each.kind }) }, words(each.kind), " ", h("b", null, si(each.total))),
        (element, each) => say(element.lastChild, si(each.total)));
      none.hidden = notable.length > 0;
      box.note(Number(missed_events) ? `newest first; ${missed_events} arrived too fast to be listed` : "newest first");
      keyed(list, notable, ({ event }) => `${event.id}/${event.member ?? ""}`, ({ event, count }) => h("li", { class: eventMood(event) },
        h("a", { href: eventLink(event) }, h("time", { datetime: event.time }, clock(event.time)), eventText(event), event.member && h("span", { class: "soft" }, ` ${event.member}`),
          h("span", { class: "chip count", hidden: count < 2 }, `× ${count}`))),
      (element, { count }) => {
        const chip = element.querySelector(".count");
        chip.hidden = count < 2;
        chip.textContent = `× ${count}`;
      });
    },
  };
}
