/** Preview of the events that proposed limits would have caused in the last hour. */

import { h, fill } from "../../lib/dom.js";
import { path, send } from "../../lib/api.js";
import { clock, si, words } from "../../lib/format.js";
import { placeLink, trouble } from "../../lib/panel.js";
import { times } from "../../lib/range_query.js";

const KINDS = ["change", "raised", "cleared", "threshold", "other"];
const WAIT_MS = 250;

export function previewPanel() {
  const element = h("section", { "aria-label": "Preview", "aria-live": "polite", hidden: true });
  let timer = 0;
  let asked = null;

  async function fetchIt(body) {
    asked?.abort();
    asked = new AbortController();
    try {
      const found = await send("POST", path("/limits/preview", times(3600), { scope: true }), body, { signal: asked.signal });
      fill(element, answerOf(found));
    } catch (error) {
      if (error.name !== "AbortError") fill(element, trouble(error));
    }
  }

  return {
    element,
    hide() {
      clearTimeout(timer);
      asked?.abort();
      element.hidden = true;
    },
    /** Ask what `body` would have made; `shown`: whether it proposes something. */
    ask(body, shown) {
      clearTimeout(timer);
      element.hidden = !shown;
      if (!shown) return;
      if (!element.firstChild) fill(element, h("p", { class: "soft" }, "Comparing with history …"));
      timer = setTimeout(() => fetchIt(body), WAIT_MS);
    },
  };
}

function answerOf(found) {
  const { had, would } = found;
  const about = found.exact ? "" : found.lower_bound ? "at least " : "about ";
  const count = found.lower_bound && !found.exact ? Math.max(would.total, found.at_least) : would.total;
  const notes = [];
  if (found.lower_bound) notes.push("Values that caused no event are not stored. The proposed limit is lower than the one in force, so there may have been more events.");
  else if (!found.exact) notes.push(`Between two events, a value is known only within ±T, so this estimate compares stored values. There would have been at least ${si(found.at_least)} events.`);
  if (found.limits_changed) notes.push(`Limits were changed at ${clock(found.limits_changed, 0)}; earlier events are based on the previous limits.`);
  return [
    h("p", { class: "verdict" }, `${clock(found.since, 0)} – ${clock(found.until, 0)}: `, h("b", null, `${si(had.total)} events`), ` of ${words(found.metric)}. With the proposed limits: `,
      h("b", { class: count > 2 * had.total + 10 ? "warn" : "" }, `${about}${si(count)}`), ratio(count, had.total), "."),
    notes.map((line) => h("p", { class: "note" }, line)),
    h("div", { class: "grid" },
      h("div", { class: "w5 table-wrap" }, h("table", { class: "table" }, h("caption", { class: "sr" }, "Events by kind"),
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "Kind"), h("th", { class: "n", scope: "col" }, "In force"), h("th", { class: "n", scope: "col" }, "Proposed"))),
        h("tbody", null, KINDS.filter((kind) => had[kind] || would[kind]).map((kind) =>
          h("tr", null, h("td", null, kind === "other" ? "new, or pushed" : words(kind)), h("td", { class: "n" }, si(had[kind])), h("td", { class: "n" }, si(would[kind]))))))),
      h("div", { class: "w7 table-wrap" }, found.items.length ? h("table", { class: "table" }, h("caption", { class: "sr" }, "Places with the most events"),
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "Places with the most events"), h("th", { class: "n", scope: "col" }, "In force"), h("th", { class: "n", scope: "col" }, "Proposed"))),
        h("tbody", null, found.items.map((each) => h("tr", null, h("td", null, placeLink(each.node, each.port, each.queue, found.metric)), h("td", { class: "n" }, si(each.had)), h("td", { class: "n" }, si(each.would)))))) : null)),
  ];
}

function ratio(would, had) {
  if (would === had) return ", the same number";
  if (!had) return "";
  if (Math.abs(would / had - 1) < 0.05) return ", about the same number";
  return would > had ? `, ${(would / had).toPrecision(2)} times as many` : `, ${Math.round(100 * (1 - would / had))} % fewer`;
}
