/** Tables that sort, keep their rows while values change, and can be walked by keyboard. */

import { h, fill, keyed, mark, say } from "./dom.js";
import { go } from "./address.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} name
 * @property {string} title
 * @property {(row: T) => any} cell text or node
 * @property {(row: T) => any} [value] the value for CSV and sorting; without it, `cell`
 * @property {boolean} [number] right-aligned; sorts descending first
 * @property {boolean} [ns] its value is in ns: its name ends in `_ns` in CSV
 * @property {boolean} [sorts]
 * @property {string} [help] title of the heading
 * @property {"plain" | "minor"} [phone] on a phone: without its title, or not at all, since the page of the row has it
 */

/**
 * @template T
 * @param {object} options
 * @param {string} options.label name of the table, for screen readers
 * @param {Column<T>[]} options.columns
 * @param {(row: T) => string} options.key
 * @param {(row: T) => string | null} [options.href] where a row leads
 * @param {(row: T) => string} [options.mood] class of a row
 * @param {string} [options.sort] "name" or "-name": descending
 * @param {((sort: string) => void) | null} [options.onSort] sorts elsewhere (by the server); without it the table does
 * @param {Node | string} [options.empty] shown without rows, once that is known
 * @param {boolean} [options.stacks] on a phone a row is a block, each value after its title; without it tables of many columns are
 */
export function table({ label, columns, key, href, mood, sort = "", onSort = null, empty = "Nothing to show.", stacks = columns.length > 3 }) {
  let rows = [];
  let known = false;
  const valueOf = (column, row) => (column.value ? column.value(row) : textOf(column.cell(row)));
  const classes = (column) => [column.number && "n", column.phone].filter(Boolean).join(" ") || null;
  const head = h("tr");
  const body = h("tbody");
  const grid = h("table", { class: `table ${stacks ? "stacks" : ""}` }, h("caption", { class: "sr" }, label), h("thead", null, head), body);
  const none = h("div", { class: "empty", hidden: true }, empty);
  const element = h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": label }, grid, none);

  function drawHead() {
    const by = sort.replace(/^-/, "");
    fill(head, columns.map((column) => {
      const order = column.name === by ? (sort.startsWith("-") ? "descending" : "ascending") : null;
      const sorts = column.sorts ?? true;
      const press = () => {
        const down = column.name === by ? !sort.startsWith("-") : Boolean(column.number);
        sort = (down ? "-" : "") + column.name;
        drawHead();
        if (onSort) onSort(sort);
        else draw();
      };
      return h("th", { class: classes(column), scope: "col", "aria-sort": order, title: column.help },
        sorts ? h("button", { type: "button", onclick: press }, column.title) : column.title);
    }));
  }

  function sorted() {
    const column = columns.find((each) => each.name === sort.replace(/^-/, ""));
    if (onSort || !column) return rows;
    const sign = sort.startsWith("-") ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [valueOf(column, a), valueOf(column, b)];
      if (x === y) return 0;
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true }));
    });
  }

  const write = (line, row) => {
    line.className = mood?.(row) ?? "";
    const where = href?.(row) ?? null;
    mark(line, "data-href", where);
    mark(line, "tabindex", where ? "0" : null);
    columns.forEach((column, at) => {
      const content = column.cell(row);
      const cell = line.children[at];
      if (content instanceof Node) {
        if (cell.__value !== (cell.__value = valueOf(column, row)) || !cell.firstChild) fill(cell, content);
      } else say(cell, content ?? "–");
      mark(cell, "data-none", cell.textContent === "–");
    });
  };

  function draw() {
    keyed(body, sorted(), key, (row) => {
      const line = h("tr", null, columns.map((column) => h("td", { class: classes(column), data: { title: column.title } })));
      write(line, row);
      return line;
    }, write);
    none.hidden = rows.length > 0 || !known;
    grid.hidden = rows.length === 0;
  }

  body.addEventListener("click", (event) => {
    if (event.target.closest("a, button, input, select") || String(getSelection())) return;
    const where = event.target.closest("tr")?.dataset.href;
    if (where) go(where);
  });
  body.addEventListener("keydown", (event) => {
    const line = event.target.closest("tr");
    if (!line || event.target !== line) return;
    const next = { ArrowDown: line.nextElementSibling, j: line.nextElementSibling, ArrowUp: line.previousElementSibling, k: line.previousElementSibling }[event.key];
    if (next) {
      next.focus();
      event.preventDefault();
    } else if (event.key === "Enter" && line.dataset.href) go(line.dataset.href);
  });

  drawHead();
  draw();
  return {
    element,
    /** @param {T[]} given */
    update(given) {
      rows = given;
      known = true;
      draw();
    },
    setSort(given) {
      sort = given;
      drawHead();
      draw();
    },
    /** For lib/export.js. Columns whose values are in ns say so. */
    export: () => ({ names: columns.map((column) => (column.ns ? `${column.name}_ns` : column.name)), rows: sorted().map((row) => columns.map((column) => valueOf(column, row))) }),
  };
}

function textOf(content) {
  return content instanceof Node ? content.textContent : content;
}
