/** Comparison of a flow with another moment, or another flow. */

import { h, fill, say } from "../../lib/dom.js";
import { set } from "../../lib/address.js";
import { get, path } from "../../lib/api.js";
import { duration, flowText, nodeName } from "../../lib/format.js";
import { moment as momentOf, iso } from "../../lib/range.js";

export function comparePanel(id) {
  const when = h("input", { type: "text", placeholder: "now, -5m or 2026-01-31T12:00:00Z", "aria-label": "Moment shown", size: 26 });
  const other = h("input", { type: "search", placeholder: "Another flow: 10.1.2.3:443, id …", "aria-label": "Flow to compare with", autocomplete: "off", spellcheck: "false" });
  const then = h("input", { type: "text", placeholder: "moment: now, -5m …", "aria-label": "Moment to compare with", size: 18 });
  const found = h("ul", { class: "menu words", hidden: true, "aria-label": "Flows found" });
  const clear = h("button", { class: "button", type: "button", onclick: () => set({ with: null, with_at: null }, true) }, "Stop comparing");
  const words = h("span", { class: "soft" });
  const problem = h("span", { class: "bad", role: "alert" });
  const form = h("form", { class: "filters compare", onsubmit: submit, "aria-label": "Moment and comparison" },
    h("label", { class: "row" }, "Show", when), h("label", { class: "row" }, "Compare with", h("span", { class: "box" }, other, found)), h("label", { class: "row" }, "at", then),
    h("button", { class: "button main", type: "submit" }, "Show"), clear, problem);
  const element = h("div", { class: "view-head" }, form, words);
  let withId = null;

  function readMoment(input) {
    const text = input.value.trim();
    if (!text || text === "now") return null;
    const at = momentOf(text);
    if (at === null) throw new Error(`“${text}” is not a time: expected now, -5m or 2026-01-31T12:00:00Z`);
    return /^-\d+[smhd]$/.test(text) ? iso(at) : text;
  }

  async function submit(event) {
    event.preventDefault();
    say(problem, "");
    try {
      const at = readMoment(when);
      const withAt = readMoment(then);
      const text = other.value.trim();
      if (text && !withId) return void (await offer(text));
      set({ at, with: text ? withId : null, with_at: withAt ?? (then.value.trim() === "now" ? "now" : null) }, true);
    } catch (error) {
      say(problem, error.message);
    }
  }

  async function offer(text) {
    const { items } = await get(path("/flows", { q: text, state: "all", since: "-1d", limit: 8, sort: "last_seen" }, { scope: true }));
    const choices = items.filter((each) => each.flow.id !== id);
    found.hidden = false;
    fill(found, choices.map((each) => h("li", null, h("button", { type: "button", onclick: () => {
      withId = each.flow.id;
      other.value = flowText(each.flow);
      found.hidden = true;
      form.requestSubmit();
    } }, flowText(each.flow), h("small", null, each.state === "past" ? " left" : ` ${duration(each.latency_ns)}`)))), !choices.length && h("li", { class: "soft" }, "No other flow matches."));
    found.querySelector("button")?.focus();
  }

  other.addEventListener("input", () => {
    withId = null;
    found.hidden = true;
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") found.hidden = true;
  });

  return {
    element,
    focus: () => other.focus(),
    change(query) {
      when.value = query.get("at") ?? "";
      then.value = query.get("with_at") ?? "";
      withId = query.get("with");
      if (!withId) other.value = "";
      clear.hidden = !query.has("with") && !query.has("with_at");
      say(problem, "");
    },
    /** Say in words what differs. */
    update(a, b) {
      if (withId && b?.flow) other.value = flowText(b.flow);
      if (!a || !b) return void say(words, "");
      const total = (each) => each.hops.reduce((sum, hop) => sum + Number(hop.latest_ns ?? hop.stored_ns ?? NaN), 0);
      const more = total(b) - total(a);
      const lacks = (each, than) => each.hops.filter((hop) => !than.hops.some(({ node }) => node.id === hop.node.id)).map((hop) => nodeName(hop.node)).join(", ");
      const [without, by] = [lacks(a, b), lacks(b, a)];
      const paths = [without && `without ${without}`, by && `with ${by}`].filter(Boolean).join(", ") || "the same switches";
      say(words, `${Number.isFinite(more) ? `Compared: ${more < 0 ? "−" : "+"}${duration(Math.abs(more))}, ` : ""}${paths}.`);
    },
  };
}
