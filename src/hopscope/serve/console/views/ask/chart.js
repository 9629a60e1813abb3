/** The answer to a query as a chart: which columns are x, y and series is in the address. */

import { h, fill } from "../../lib/dom.js";
import { param, set } from "../../lib/address.js";
import { exports } from "../../lib/export.js";
import { ms } from "../../lib/format.js";
import { empty } from "../../lib/panel.js";
import { columnChart } from "../../charts/columns.js";
import { legend, lineChart } from "../../charts/line.js";

const MAX_SERIES = 12;
const MAX_CATEGORIES = 400;
/** In the address: no column is the series. */
const NONE = "-";
/** The key by which rows have the same x. */
const keyOf = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : value);
const isTime = (type) => /^(TIMESTAMP|DATE)/.test(type ?? "");
const isNumber = (type) => /INT(?!ERVAL)|FLOAT|DOUBLE|DECIMAL|BIGNUM/.test(type ?? "") && !/\[\]/.test(type);

export function answerChart() {
  let answer = { columns: [], types: [], rows: [] };
  const times = lineChart({ label: "Answer over time", height: 280 });
  const columns = columnChart({ label: "Answer by category", height: 280 });
  const choice = (title) => {
    const field = h("select", { onchange: chosen });
    return [field, h("label", { class: "row" }, h("span", { class: "soft" }, title), field)];
  };
  const [x, xLabel] = choice("x");
  const [y, yLabel] = choice("y");
  const [series, seriesLabel] = choice("series");
  const [form, formLabel] = choice("as");
  fill(form, [["line", "lines"], ["bars", "bars"]].map(([name, text]) => h("option", { value: name }, text)));
  const box = h("div", { class: "answer-chart" });
  const note = h("p", { class: "note" });
  const shown = () => (times.element.isConnected ? times : columns);
  const element = h("div", null, h("div", { class: "filters" }, xLabel, yLabel, seriesLabel, formLabel,
    exports("answer-chart", { table: () => shown().export(), png: () => shown().png() })), box, note);

  function chosen() {
    set({ cx: x.value, cy: y.value, cs: series.value || NONE, cf: form.value });
    draw();
  }

  function offer() {
    const numbers = answer.columns.filter((_, at) => isNumber(answer.types[at]));
    const time = answer.columns.find((_, at) => isTime(answer.types[at]));
    const kept = (name, among, other) => (among.includes(param(name)) ? param(name) : other ?? "");
    const options = (names) => names.map((name) => h("option", { value: name }, name || "none"));
    const first = time ?? answer.columns.find((name) => !numbers.includes(name)) ?? answer.columns[0];
    fill(x, options(answer.columns));
    x.value = kept("cx", answer.columns, first);
    fill(y, options(numbers));
    y.value = kept("cy", numbers, numbers.filter((name) => name !== x.value).at(-1) ?? numbers[0]);
    const others = answer.columns.filter((name) => name !== x.value && name !== y.value);
    fill(series, options(["", ...others]));
    const texts = others.filter((name) => !numbers.includes(name));
    series.value = param("cs") === NONE ? "" : kept("cs", others, time || repeats() ? (texts.find((name) => !repeats(name)) ?? texts[0]) : "");
    form.value = param("cf") || (time ? "line" : "bars");
  }

  /** Whether two rows have the same x, and the same value of this column. */
  function repeats(name = "") {
    const at = [x.value, name].map((each) => answer.columns.indexOf(each)).filter((each) => each >= 0);
    return new Set(answer.rows.map((row) => JSON.stringify(at.map((each) => row[each])))).size < answer.rows.length;
  }

  function draw() {
    const at = (name) => answer.columns.indexOf(name);
    const [cx, cy, cs] = [at(x.value), at(y.value), at(series.value)];
    note.textContent = "";
    if (!answer.rows.length || cy < 0) return void fill(box, empty("There is nothing to plot.", "A chart needs rows and a numeric column."));
    /** @type {Map<string, Map<unknown, number | null>>} sums of y by x, of each series */
    const groups = new Map();
    for (const row of answer.rows) {
      const [name, category] = [cs < 0 ? y.value : String(row[cs]), keyOf(row[cx])];
      if (!groups.has(name)) groups.set(name, new Map());
      const sums = groups.get(name);
      const before = sums.get(category) ?? null;
      sums.set(category, row[cy] === null ? before : before + Number(row[cy]));
    }
    const names = [...groups.keys()].slice(0, MAX_SERIES);
    if (groups.size > names.length) note.textContent = `The first ${names.length} of ${groups.size} series are shown.`;
    if (repeats(series.value)) note.textContent += ` Several rows have the same ${x.value}${cs < 0 ? "" : ` and ${series.value}`}: the chart adds up their ${y.value}. For another aggregate, use GROUP BY in the query.`;
    const keys = legend(names.map((name) => ({ name })));
    if (isTime(answer.types[cx]) && form.value === "line") {
      const lines = names.map((name) => ({ name, points: [...groups.get(name)].filter(([time]) => time !== null).map(([time, value]) => [ms(time), value]).sort((a, b) => a[0] - b[0]) }));
      const all = lines.flatMap((each) => each.points.map(([time]) => time));
      const [from, to] = all.reduce(([low, high], each) => [Math.min(low, each), Math.max(high, each)], [Infinity, -Infinity]);
      fill(box, times.element, keys);
      times.set({ series: lines, from, to: Math.max(to, from + 1) });
      return;
    }
    const categories = [...new Set(answer.rows.map((row) => keyOf(row[cx])))].slice(0, MAX_CATEGORIES);
    const found = names.map((name) => ({ name, values: categories.map((each) => groups.get(name).get(each) ?? null) }));
    fill(box, columns.element, keys);
    columns.set({ categories: categories.map(String), series: found, lines: form.value === "line" });
  }

  return {
    element,
    set(given) {
      answer = given;
      offer();
    },
    draw,
  };
}
