/** Browses a store without a query by key: lists with their entries, and counters. */

import { h, fill, say } from "../../lib/dom.js";
import { link, param, set } from "../../lib/address.js";
import { get, path } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { si, words } from "../../lib/format.js";
import { empty, panel, trouble } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

const PAGE = 50;
const ENTRIES = 200;

/** Buttons of a page; `parameter` of the address has the offset. */
function pager(parameter, go) {
  const text = h("span", { class: "soft" });
  const back = h("button", { class: "button", type: "button", onclick: () => turn(-PAGE) }, "Previous");
  const next = h("button", { class: "button", type: "button", onclick: () => turn(PAGE) }, "Next");
  const turn = (by) => {
    set({ [parameter]: Math.max(0, Number(param(parameter, "0")) + by) || null }, true);
    go();
  };
  return { element: h("div", { class: "row" }, back, next, text), update(offset, count, total) {
    back.disabled = offset === 0;
    next.disabled = offset + count >= total;
    text.textContent = total ? `${offset + 1} to ${offset + count} of ${total.toLocaleString("en")}` : "none";
  } };
}

/** @param {string} name of a Key-Increment store */
export function counterPanel(name) {
  const rows = table({ label: "Counters", key: (each) => String(each.number), empty: empty("All counters are 0.", "They increase when switches report; the rate is shown above."), columns: [
    { name: "number", title: "Counter", number: true, sorts: false, cell: (each) => each.number.toLocaleString("en"), value: (each) => each.number },
    { name: "value", title: "Value", number: true, sorts: false, cell: (each) => BigInt(each.value).toLocaleString("en"), value: (each) => each.value },
  ] });
  const pages = pager("counters", change);
  const order = h("select", { "aria-label": "Order", onchange: () => {
    set({ order: order.value === "highest" ? null : order.value, counters: null });
    change();
  } }, h("option", { value: "highest" }, "highest first"), h("option", { value: "index" }, "by number"));
  const box = panel("Counters", { note: "only counters above 0; keys that hash to the same counter share it", tools: [order, exports(`${name}-counters`, { table: rows.export })] });
  fill(box.body, rows.element, pages.element);

  async function change() {
    order.value = param("order", "highest");
    const offset = Number(param("counters", "0"));
    try {
      const found = await get(path(`/direct/stores/${encodeURIComponent(name)}/counters`, { order: order.value, offset, limit: PAGE }));
      rows.update(found.items);
      pages.update(offset, found.items.length, found.total);
    } catch (error) {
      fill(box.body, trouble(error, change));
    }
  }
  change();
  return { element: box.element, change };
}

/**
 * @param {string} name of an Append store
 * @param {string} note on the numbers of entries
 */
export function listPanel(name, note) {
  const rows = table({ label: "Lists", key: (each) => String(each.number), columns: [
    { name: "number", title: "List", number: true, sorts: false, cell: (each) => h("a", { href: link(["direct", name], { list: each.number }) }, each.number.toLocaleString("en")), value: (each) => each.number },
    { name: "entries", title: "Entries so far", number: true, sorts: false, cell: (each) => si(each.entries), value: (each) => each.entries },
  ] });
  const pages = pager("lists", change);
  const box = panel("Lists", { note, tools: exports(`${name}-lists`, { table: rows.export }) });
  const entries = entryPanel(name);
  fill(box.body, rows.element, pages.element);
  const element = h("div", { class: "grid" }, h("div", { class: "w4" }, box.element), h("div", { class: "w8" }, entries.element));

  async function change() {
    const offset = Number(param("lists", "0"));
    entries.change();
    try {
      const found = await get(path(`/direct/stores/${encodeURIComponent(name)}/lists`, { offset, limit: PAGE }));
      rows.update(found.items);
      pages.update(offset, found.items.length, found.total);
    } catch (error) {
      fill(box.body, trouble(error, change));
    }
  }
  change();
  return { element, change };
}

/** Entries of the list in the address, oldest first; the button reads on from where the last answer ended, including entries that arrived since. */
function entryPanel(name) {
  let read = { list: null, items: [], decoded: [], lost: 0, next: null };
  const body = h("div");
  const more = h("button", { class: "button", type: "button", onclick: () => load(read.next) }, "More entries");
  const box = panel("Entries", { tools: exports(`${name}-entries`, { table: () => ({ names: ["entry", "data", "fields"], rows: read.items.map((data, at) => [at, data, read.decoded[at] ?? null]) }) }) });
  fill(box.body, body, more);

  async function load(after) {
    const list = param("list", "0");
    const ask = (from, limit) => get(path(`/direct/stores/${encodeURIComponent(name)}/lists/${list}`, { after: from, limit }));
    try {
      const found = await ask(after, ENTRIES);
      const isLast = found.items.length < ENTRIES || !(await ask(found.next, 1)).items.length;
      if (read.list !== list || after === null) read = { list, items: [], decoded: [], lost: 0, next: null };
      read.items.push(...found.items);
      read.decoded.push(...(found.decoded ?? found.items.map(() => null)));
      read.lost += found.lost;
      read.next = found.next;
      box.note(`list ${list}, ${read.items.length} read${read.lost ? `, ${si(read.lost)} already overwritten` : ""}`);
      draw(found.items.length, isLast);
    } catch (error) {
      fill(body, trouble(error));
    }
  }

  function draw(fresh, isLast) {
    say(more, isLast ? "Check for new entries" : "More entries");
    if (!read.items.length) return void fill(body, empty("This list has no entries.", "Entries appear when switches send reports."));
    fill(body, h("div", { class: "table-wrap scroll", tabindex: "0", role: "region", "aria-label": "Entries" }, h("table", { class: "table" }, h("thead", null, h("tr", null, h("th", { class: "n" }, "Entry"), h("th", null, "Data"), h("th", null, "Fields"))),
      h("tbody", null, read.items.map((data, at) => h("tr", null, h("td", { class: "n" }, String(at)), h("td", { class: "mono" }, data),
        h("td", null, Object.entries(read.decoded[at] ?? {}).map(([key, value]) => `${words(key)} ${JSON.stringify(value)}`).join(", ") || "–")))))),
    fresh ? null : h("p", { class: "note" }, "No new entries yet."));
  }

  return { element: box.element, change() {
    if (param("list", "0") !== read.list) load(null);
  } };
}
