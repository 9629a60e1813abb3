/** One store: how full it is, how likely keys are still found, queries by key, its lists or counters. */

import { h, fill } from "../../lib/dom.js";
import { link, param, set } from "../../lib/address.js";
import { path } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { bytes, percent, si, span, words } from "../../lib/format.js";
import { watch } from "../../lib/live.js";
import { figures, panel, trouble } from "../../lib/panel.js";
import { curveChart, interpolate } from "../../charts/curve.js";
import { legend } from "../../charts/line.js";
import { counterPanel, listPanel } from "./browse.js";
import { keyPanel } from "./key.js";

const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 };

export function showStore(place, name) {
  const wrong = h("div");
  const numbers = figures();
  const expected = expectedPanel(name);
  const facts = panel("Layout", { note: "of the store in memory" });
  const asked = keyPanel(name);
  const more = h("div");
  let part = null;
  fill(place, h("p", null, h("a", { href: link("/direct") }, "All stores")), wrong, numbers.element,
    h("div", { class: "grid" }, wide(asked.element, "w8"), wide(facts.element, "w4"), expected.element, more));
  let outlook = null;
  let store = null;

  function draw() {
    if (!store) return;
    numbers.update([
      { key: "primitive", title: "Primitive", value: words(store.primitive) },
      { key: "memory", title: "Memory", value: bytes(store.bytes), note: store.layout.collectors > 1 ? "this collector's part of the keys" : "" },
      outlook && { key: "slots", title: outlook.what === "entries" ? "Lists" : "Slots", value: si(outlook.slots) },
      outlook?.used !== null && outlook && { key: "used", title: "In use", value: percent(outlook.used), note: "estimated from a sample of slots", mood: outlook.used > 0.95 ? "warn" : "" },
      outlook?.load !== null && outlook && { key: "load", title: "Load", value: outlook.load.toFixed(2), note: `${outlook.what} per slot` },
      { key: "writes", title: "Writes", value: si(store.operations), note: "memory operations, this epoch" },
      outlook && outlook.per_second !== null && { key: "rate", title: "Rate", value: si(outlook.per_second), unit: "/s", note: `${outlook.what}, mean of this epoch` },
      { key: "epoch", title: "Epoch", value: String(store.epoch), note: store.past_epochs?.length ? `past: ${store.past_epochs.join(", ")}` : "no past epochs" },
    ].filter(Boolean));
    fill(facts.body, h("dl", { class: "facts" }, Object.entries(store.layout).map(([key, value]) => [h("dt", null, words(key)), h("dd", null, typeof value === "number" ? value.toLocaleString("en") : typeof value === "boolean" ? (value ? "yes" : "no") : String(value))])));
    asked.update(store);
    if (!part && store.primitive === "append") part = listPanel(name, store.layout.collectors > 1 ? "entries at this collector; other collectors have other lists" : "");
    if (!part && store.primitive === "key-increment") part = counterPanel(name);
    if (part && !part.element.isConnected) fill(more, part.element);
  }

  const ends = [
    watch(path("/direct/stores", { local: true }), (data, status) => {
      if (status !== 200) return void fill(wrong, trouble(new Error(data.error)));
      const found = data.items.find((each) => each.name === name);
      fill(wrong, found && !found.error ? null : trouble(new Error(found?.error ?? `This collector has no store ${name}.`)));
      store = found?.error ? null : found ?? null;
      draw();
    }),
    watch(path(`/direct/stores/${encodeURIComponent(name)}/outlook`), (data, status) => {
      outlook = status === 200 ? data : null;
      expected.update(outlook);
      draw();
    }),
  ];
  return { end: () => ends.forEach((each) => each()), change() {
    expected.draw();
    asked.change();
    part?.change();
  } };
}

function wide(element, classes) {
  element.classList.add(classes);
  return element;
}

/** Success by age from theory, with a marker at the age of a key that was written some time ago. */
function expectedPanel(name) {
  let outlook = null;
  const chart = curveChart({ label: "Expected success by age", x: (value) => si(value) });
  const field = h("input", { value: param("age", "5m"), size: 6, "aria-label": "Age of the key, as 30s, 5m, 2h or 1d", onchange: () => {
    set({ age: field.value === "5m" ? null : field.value });
    draw();
  } });
  const answer = h("span", { role: "status" });
  const keys = h("div");
  const what = h("span", null, "A key written");
  const box = panel("Expected success by age", { note: "predicted by the formulas of DTA and DART", tools: exports(`${name}-expected`, { table: chart.export, png: chart.png }) });
  fill(box.body, h("div", { class: "row" }, what, field, "ago:", answer), chart.element, keys);
  box.element.hidden = true;

  function draw() {
    if (!outlook?.ages.length) return;
    field.value = param("age", "5m");
    const found = /^(\d+(?:\.\d+)?)\s*([smhd])$/.exec(field.value.trim());
    const seconds = found ? Number(found[1]) * SECONDS[found[2]] : null;
    const later = seconds === null || outlook.per_second === null ? null : seconds * outlook.per_second;
    what.textContent = outlook.what === "entries" ? "An entry written" : "A key written";
    const success = later === null ? null : interpolate(outlook.ages, outlook.correct, later);
    answer.className = success !== null && success < 0.5 ? "warn" : "";
    fill(answer, seconds === null ? "expected a time such as 30s, 5m, 2h or 1d" : later === null ? "its rate is unknown: the store does not record when it was created"
      : outlook.what === "entries" ? [h("b", null, success > 0.5 ? "still there" : "overwritten"), `, if all entries went to its list: ${si(later)} came after it, and a list keeps ${si(outlook.half)}`]
        : [h("b", null, percent(success)), ` found, with ${si(later)} ${outlook.what} after it at ${si(outlook.per_second)}/s`]);
    const series = [{ name: "found", values: outlook.correct }, ...(outlook.wrong ? [{ name: "wrong answer", values: outlook.wrong }] : [])];
    const markers = [
      ...(later === null ? [] : [{ at: later, text: `${field.value} ago` }]),
      ...(outlook.load ? [{ at: outlook.load * outlook.slots, text: "oldest key now" }] : []),
    ];
    chart.set({ xs: outlook.ages, series, markers });
    fill(keys, legend(series), h("p", { class: "note" }, `Horizontal axis: ${outlook.what} written after the ${outlook.what === "entries" ? "entry" : "key"}.`,
      outlook.half && outlook.what !== "entries" ? ` Half are found up to ${si(outlook.half)} ${outlook.what}${outlook.per_second ? `, ${span(outlook.half / outlook.per_second)} at this rate` : ""}.` : ""));
  }
  return { element: box.element, draw, update(given) {
    outlook = given;
    box.element.hidden = !given?.ages.length;
    draw();
  } };
}
