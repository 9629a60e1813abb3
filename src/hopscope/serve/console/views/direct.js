/** Direct memory: the stores that switches write to, and one of them. */

import { h, fill } from "../lib/dom.js";
import { link, param } from "../lib/address.js";
import { path } from "../lib/api.js";
import { exports } from "../lib/export.js";
import { bytes, si, words } from "../lib/format.js";
import { watch } from "../lib/live.js";
import { consoleOf } from "../lib/members.js";
import { empty, figures, panel, trouble } from "../lib/panel.js";
import { table } from "../lib/table.js";
import { showStore } from "./direct/store.js";

export const title = (address) => (address.parts[1] ? `Store ${address.parts[1]}` : "Direct memory");

export function show(place, address) {
  return address.parts[1] ? showStore(place, address.parts[1]) : showStores(place);
}

const SIZE = { "key-write": "slots", "key-increment": "slots", postcarding: "chunks", append: "lists", cardinality: "sketches" };

function showStores(place) {
  const numbers = figures();
  const rows = table({
    label: "Stores", key: (each) => `${each.collector ?? ""}/${each.name}`, href: (each) => (each.own && !each.error ? link(["direct", each.name]) : null), mood: (each) => (each.error ? "bad" : ""),
    sort: param("sort", "name"),
    columns: [
      { name: "name", title: "Store", cell: storeLink, value: (each) => each.name },
      { name: "primitive", title: "Primitive", cell: (each) => each.error ?? words(each.primitive) },
      { name: "memory", title: "Memory", number: true, cell: (each) => (each.bytes ? bytes(each.bytes) : "–"), value: (each) => each.bytes ?? null },
      { name: "size", title: "Slots", number: true, help: "Slots, chunks, lists or sketches", cell: (each) => sizeText(each), value: (each) => each.layout?.[SIZE[each.primitive]] ?? null },
      { name: "copies", title: "Copies", number: true, cell: (each) => each.layout?.copies ?? "–", value: (each) => each.layout?.copies ?? null },
      { name: "writes", title: "Writes", number: true, help: "Memory operations in this epoch", cell: (each) => si(each.operations ?? NaN), value: (each) => each.operations ?? null },
      { name: "epoch", title: "Epoch", number: true, cell: (each) => each.epoch ?? "–", value: (each) => each.epoch ?? null },
      { name: "past", title: "Past epochs", cell: (each) => (each.past_epochs ?? []).join(", ") || "none" },
      { name: "collector", title: "Collector", cell: (each) => each.collector ?? "this one" },
    ],
  });
  const box = panel("Stores", { note: "memory that switches write by RDMA, without using the CPU", tools: exports("stores", { table: rows.export }) });
  const none = h("div");
  fill(box.body, rows.element);
  fill(place, none, numbers.element, box.element);
  const stop = watch(path("/direct/stores"), (data, status) => {
    numbers.element.hidden = box.element.hidden = status !== 200 || !data.items.length;
    if (status !== 200) return void fill(none, trouble(new Error(data.error)));
    fill(none, data.items.length ? null : empty("This collector has no stores.",
      "A translator writes switch reports into stores, which can be queried by key. Try it on this machine:",
      "hopscope translate --data DATA --monitor int-path-tracing\nhopscope direct report -m int-path-tracing --connections 100 --rate 1000"));
    const good = data.items.filter((each) => !each.error);
    numbers.update([
      { key: "stores", title: "Stores", value: String(data.items.length), note: data.items.length > good.length ? `${data.items.length - good.length} cannot be read` : "all can be read", mood: data.items.length > good.length ? "bad" : "" },
      { key: "memory", title: "Memory", value: bytes(good.reduce((sum, each) => sum + each.bytes, 0)) },
      { key: "writes", title: "Writes", value: si(good.reduce((sum, each) => sum + each.operations, 0)), note: "in the current epochs" },
    ]);
    rows.update(data.items);
  });
  return { end: stop };
}

/** A store's page is served by the collector that has the store. */
function storeLink({ name, own, collector, error }) {
  const there = own ? null : consoleOf(collector) ?? (/^https?:\/\//.test(collector) ? collector : null);
  if (error || (!own && !there)) return name;
  return h("a", { href: own ? link(["direct", name]) : new URL(`/direct/${encodeURIComponent(name)}`, there).href }, name);
}

function sizeText(each) {
  const name = SIZE[each.primitive];
  return each.layout?.[name] === undefined ? "–" : `${si(each.layout[name])} ${name}`;
}
