/** The bytes of a report and their fields: pointing at one marks the other. */

import { h } from "../../lib/dom.js";

const ROW = 16;

/**
 * @param {string} hex
 * @param {any[]} fields of the API
 */
export function bytesView(hex, fields) {
  const count = hex.length / 2;
  const cells = Array.from({ length: count }, (_, at) => h("span", { data: { at } }, hex.slice(2 * at, 2 * at + 2)));
  const texts = Array.from({ length: count }, (_, at) => h("span", { data: { at } }, printable(parseInt(hex.slice(2 * at, 2 * at + 2), 16))));
  const dump = h("div", { class: "dump mono", role: "img", "aria-label": `${count} bytes; the list of fields has their values` });
  for (let at = 0; at < count; at += ROW) {
    dump.append(h("span", { class: "faint" }, at.toString(16).padStart(4, "0")), h("span", { class: "hex" }, cells.slice(at, at + ROW)),
      h("span", { class: "text" }, texts.slice(at, at + ROW)));
  }
  /** Innermost field of each byte. */
  const owner = new Array(count).fill(null);
  const tree = h("ul", { class: "fields" }, fields.map((each) => nodeOf(each, 0)));

  function nodeOf(field, depth) {
    const own = h("span", { class: "field-line", tabindex: "0", title: field.about || null }, h("span", { class: "name" }, field.name), " ",
      h("b", null, field.text), " ", h("span", { class: "faint" }, placeOf(field)));
    const node = field.fields.length
      ? h("li", null, h("details", { open: depth === 0 && field.length <= 64 }, h("summary", null, own), h("ul", null, field.fields.map((each) => nodeOf(each, depth + 1)))))
      : h("li", null, own);
    own.__field = field;
    if (!field.fields.length) for (let at = field.offset; at < Math.min(count, field.offset + field.length); at += 1) owner[at] = [...(owner[at] ?? []), own];
    return node;
  }

  function mark(from, to, lines) {
    for (const each of [...cells, ...texts]) each.classList.toggle("on", Number(each.dataset.at) >= from && Number(each.dataset.at) < to);
    for (const each of tree.querySelectorAll(".field-line.on")) each.classList.remove("on");
    for (const each of lines) each.classList.add("on");
  }

  const overField = (event) => {
    const line = event.target.closest?.(".field-line");
    if (line) mark(line.__field.offset, line.__field.offset + line.__field.length, [line]);
  };
  tree.addEventListener("pointerover", overField);
  tree.addEventListener("focusin", overField);
  dump.addEventListener("pointerover", (event) => {
    const at = Number(event.target.dataset?.at ?? NaN);
    if (Number.isNaN(at) || !owner[at]) return;
    const field = owner[at][0].__field;
    mark(field.offset, field.offset + field.length, owner[at]);
  });
  dump.addEventListener("click", (event) => {
    const at = Number(event.target.dataset?.at ?? NaN);
    const line = Number.isNaN(at) ? null : owner[at]?.[0];
    if (!line) return;
    for (let each = line.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
    line.scrollIntoView({ block: "nearest" });
    line.focus();
  });
  const open = (on) => tree.querySelectorAll("details").forEach((each) => (each.open = on));
  const tools = [h("button", { class: "button small", type: "button", onclick: () => open(true) }, "Expand all"),
    h("button", { class: "button small", type: "button", onclick: () => open(false) }, "Collapse all")];
  return { element: h("div", { class: "bytes" }, h("div", { class: "dump-place" }, dump), h("div", { class: "tree-place" }, tree)), tools };
}

/** The content of a report as a tree of names and values. */
export function objectView(value) {
  const list = h("dl", { class: "facts report" });
  for (const [name, each] of Object.entries(value)) {
    const nested = each !== null && typeof each === "object";
    list.append(h("dt", null, name.replaceAll("_", " ")), h("dd", null, !nested ? String(each ?? "unavailable")
      : Array.isArray(each) ? h("ol", null, each.map((one) => h("li", null, typeof one === "object" && one ? objectView(one) : String(one)))) : objectView(each)));
  }
  return list;
}

function printable(code) {
  return code >= 32 && code < 127 ? String.fromCharCode(code) : "·";
}

function placeOf(field) {
  const bits = field.bits ? `, bit${field.bits > 1 ? `s ${field.first_bit} to` : ""} ${field.first_bit + field.bits - 1}` : "";
  return `${field.offset}${field.length > 1 ? `–${field.offset + field.length - 1}` : ""}${bits}`;
}
