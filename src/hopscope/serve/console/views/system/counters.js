/** Every counter with its meaning, rate and a line of the last minutes; a box to search. */

import { h, svg, fill } from "../../lib/dom.js";
import { param, set } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { si } from "../../lib/format.js";
import { watch } from "../../lib/live.js";
import { empty, panel, prose } from "../../lib/panel.js";
import { table } from "../../lib/table.js";
import { counterName, valueText } from "./counter_text.js";

const KEPT = 120;
const WIDTH = 96;
const HEIGHT = 18;

export function counterPart() {
  let items = [];
  /** @type {Map<string, number[]>} */
  const lines = new Map();
  const search = h("input", { type: "search", placeholder: "Search name, meaning or process", "aria-label": "Search counters", value: param("q"), oninput: () => {
    set({ q: search.value });
    draw();
  } });
  const all = h("input", { type: "checkbox", checked: param("zero") === "1", onchange: () => {
    set({ zero: all.checked ? "1" : null });
    draw();
  } });
  const rows = table({
    label: "Counters", key: (each) => `${each.process} ${counterName(each)}`, sort: param("sort"), empty: empty("No counter matches.", "Clear the search, or include counters that are 0."), mood: (each) => (each.advice && each.per_second > 0 ? "bad" : ""),
    columns: [
      { name: "name", title: "Counter", cell: (each) => h("span", { class: "counter" }, h("code", null, counterName(each)), h("span", { class: "meaning" }, prose(each.help), each.meaning && prose(` \`${Object.values(each.label)[0]}\`: ${each.meaning}`)),
        each.advice && Number(each.value) > 0 && h("b", { class: "meaning" }, prose(`What to do: ${each.advice}.`))), value: counterName },
      { name: "process", title: "Process", cell: (each) => each.process },
      { name: "value", title: "Value", number: true, cell: (each) => valueText(each), value: (each) => Number(each.value) },
      { name: "rate", title: "Now", number: true, cell: (each) => (each.gauge ? "–" : `${valueText(each, each.per_second)}/s`), value: (each) => (each.gauge ? null : each.per_second) },
      { name: "line", title: "Last minutes", sorts: false, cell: (each) => spark(lines.get(key(each)) ?? []), value: (each) => (lines.get(key(each)) ?? []).join(" ") },
    ],
  });
  const box = panel("Counters", { tools: exports("counters", { table: rows.export, json: () => items }) });
  fill(box.body, h("div", { class: "filters" }, search, h("label", { class: "row" }, all, "include counters that are 0")), rows.element);

  function draw() {
    const wanted = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const found = items.filter((each) => (all.checked || Number(each.value)) && wanted.every((word) => `${each.process} ${counterName(each)} ${each.help} ${each.meaning}`.toLowerCase().includes(word)));
    rows.update(found);
    box.note(`${found.length} of ${items.length}, ${items.filter((each) => !Number(each.value)).length} are 0`);
  }

  const stop = watch(path("/system/counters"), (data, status) => {
    if (status !== 200) return box.note(data.error);
    items = data.items;
    for (const each of items) {
      const line = lines.get(key(each)) ?? [];
      line.push(each.gauge ? Number(each.value) : each.per_second);
      if (line.length > KEPT) line.shift();
      lines.set(key(each), line);
    }
    draw();
  });
  return { elements: [box.element], end: stop, change() {
    if (search.value !== param("q")) search.value = param("q");
    all.checked = param("zero") === "1";
    draw();
  } };
}

const key = (each) => `${each.process} ${counterName(each)}`;

/** A line of the last rates. */
function spark(values) {
  const top = Math.max(...values, 0);
  if (values.length < 2 || !top) return h("span", { class: "faint" }, "–");
  const points = values.map((value, at) => `${((at / (KEPT - 1)) * WIDTH).toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 2)).toFixed(1)}`).join(" ");
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": `between ${si(Math.min(...values))} and ${si(top)}`, class: "spark" },
    svg("polyline", { points, fill: "none", stroke: "currentColor", "stroke-width": "1.2" }));
}
