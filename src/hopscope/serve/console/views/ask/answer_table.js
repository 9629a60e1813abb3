/** The answer to a query as a table: typed, sortable; only the visible rows are in the page. */

import { h, fill } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { moment } from "../../lib/format.js";

const ROW = 24;
const AHEAD = 12;
const NUMBERS = /^(U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL.*|BIGNUM)$/;

export function answerTable() {
  let answer = { columns: [], types: [], rows: [] };
  let order = [];
  let by = null;
  const head = h("tr");
  const before = h("tr", { class: "gap", "aria-hidden": "true" }, h("td"));
  const after = h("tr", { class: "gap", "aria-hidden": "true" }, h("td"));
  const body = h("tbody");
  const grid = h("table", { class: "table answer" }, h("caption", { class: "sr" }, "Answer"), h("thead", null, head), body);
  const none = h("div", { class: "empty", hidden: true }, h("b", null, "The query returned no rows."));
  const element = h("div", { class: "table-wrap answer-wrap", tabindex: "0", role: "region", "aria-label": "Answer" }, grid, none);
  let drawn = "";

  function draw() {
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - AHEAD);
    const last = Math.min(order.length, first + Math.ceil((element.clientHeight || 480) / ROW) + 2 * AHEAD);
    const now = `${first}/${last}`;
    if (now === drawn) return;
    drawn = now;
    before.firstChild.style.height = `${first * ROW}px`;
    after.firstChild.style.height = `${(order.length - last) * ROW}px`;
    fill(body, before, order.slice(first, last).map((row, at) => h("tr", { "aria-rowindex": String(first + at + 2) },
      row.map((value, column) => h("td", { class: NUMBERS.test(answer.types[column]) ? "n mono" : "mono" }, cell(value, column))))), after);
  }

  function cell(value, column) {
    if (value === null) return h("span", { class: "faint" }, "NULL");
    const name = answer.columns[column];
    if (name === "flow_id" && answer.types[column] === "UBIGINT") return h("a", { href: link(["flows", BigInt(value).toString(16).padStart(16, "0")]) }, String(value));
    if (answer.types[column] === "TIMESTAMP_NS") return h("span", { title: moment(value) }, String(value));
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  }

  function sort() {
    order = answer.rows;
    if (by) {
      const exact = (value) => (typeof value === "string" && NUMBERS.test(answer.types[by.column]) ? BigInt(value) : value);
      const sign = by.down ? -1 : 1;
      order = [...answer.rows].sort((a, b) => {
        const [x, y] = [exact(a[by.column]), exact(b[by.column])];
        if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
        if (typeof x === "object") return sign * JSON.stringify(x).localeCompare(JSON.stringify(y));
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
    fill(head, answer.columns.map((name, column) => {
      const number = NUMBERS.test(answer.types[column]);
      const press = () => {
        by = by?.column === column ? { column, down: !by.down } : { column, down: number };
        sort();
      };
      return h("th", { scope: "col", class: number ? "n" : null, title: answer.types[column], "aria-sort": by?.column === column ? (by.down ? "descending" : "ascending") : null },
        h("button", { type: "button", onclick: press }, name));
    }));
    grid.setAttribute("aria-rowcount", String(order.length + 1));
    before.firstChild.colSpan = after.firstChild.colSpan = Math.max(1, answer.columns.length);
    none.hidden = order.length > 0;
    drawn = "";
    draw();
  }

  let due = 0;
  element.addEventListener("scroll", () => {
    due ||= requestAnimationFrame(() => {
      due = 0;
      draw();
    });
  });
  new ResizeObserver(draw).observe(element);

  return {
    element,
    set(given) {
      answer = given;
      by = null;
      element.scrollTop = 0;
      sort();
    },
  };
}
