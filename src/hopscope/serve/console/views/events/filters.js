/** The filters above the list; each is a parameter of the address. */

import { h, fill } from "../../lib/dom.js";
import { here, set } from "../../lib/address.js";
import { words } from "../../lib/format.js";
import { tabs } from "../../lib/panel.js";
import { METRICS, NOTABLE, ROUTINE } from "./requests.js";

const GROUPS = [["", "One by one"], ["place", "By place"], ["kind", "By kind"]];
const TEXTS = [["node", "Switch", "any switch"], ["port", "Port", "any port"], ["prefix", "Network", "10.0.0.0/8"], ["q", "Text", "in loaded rows"]];
const NAMES = { kind: "kind", metric: "metric", severity: "severity", node: "switch", port: "port", prefix: "network", flow: "flow", q: "text" };

export function filters() {
  const which = tabs("Which events", [["", "Notable"], ["all", "All"]], "", (name) => set({ all: name ? "1" : null, kind: null }));
  const group = tabs("Grouping", GROUPS, "", (name) => set({ group: name }));
  const select = (name, title, options) => h("select", { "aria-label": title, onchange: (event) => set({ [name]: event.target.value }, true) },
    h("option", { value: "" }, title), options.map((each) => h("option", { value: each }, words(each))));
  const kind = select("kind", "Any kind", [...NOTABLE, ...ROUTINE]);
  const metric = select("metric", "Any metric", METRICS);
  const severity = select("severity", "Any severity", ["warning", "info"]);
  const texts = TEXTS.map(([name, title, hint]) => {
    const input = h("input", { type: name === "q" ? "search" : "text", placeholder: hint, size: name === "port" ? 7 : 14, "aria-label": title, autocomplete: "off", spellcheck: "false",
      onchange: (event) => set({ [name]: event.target.value.trim() }, true) });
    if (name === "q") input.addEventListener("input", () => set({ q: input.value.trim() }));
    return [name, input, h("label", { class: "with-label" }, h("span", { class: "faint" }, title), input)];
  });
  const chips = h("div", { class: "filters", hidden: true });
  const element = h("div", { class: "event-filters" },
    h("div", { class: "filters" }, which.element, kind, metric, severity, texts.map(([, , label]) => label)), chips);

  function update(query) {
    which.draw(query.getAll("kind").length ? "-" : query.get("all") ? "all" : "");
    group.draw(query.get("group") ?? "");
    kind.value = query.getAll("kind").length === 1 ? query.get("kind") : "";
    metric.value = query.getAll("metric").length === 1 ? query.get("metric") : "";
    severity.value = query.get("severity") ?? "";
    for (const [name, input] of texts) if (input !== document.activeElement) input.value = query.getAll(name).join(" ");
    const found = Object.entries(NAMES).flatMap(([name, title]) => (name === "q" ? [] : query.getAll(name).map((value) => [name, title, value])));
    chips.hidden = !found.length;
    fill(chips, found.map(([name, title, value]) => h("span", { class: "chip" }, `${title} ${words(value)}`,
      h("button", { type: "button", "aria-label": `Remove filter ${title} ${value}`, onclick: () => set({ [name]: here().query.getAll(name).filter((each) => each !== value) }, true) }, "×"))),
    found.length > 1 && h("button", { class: "button small", type: "button", onclick: () => set(Object.fromEntries(Object.keys(NAMES).map((name) => [name, null])), true) }, "Clear filters"));
  }
  return { element, group: group.element, update };
}
