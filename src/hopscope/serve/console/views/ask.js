/** Ask: SQL over history, with the schema beside it. The query, the form of the answer and the chart are in the address. */

import { h, fill, say } from "../lib/dom.js";
import { param, set } from "../lib/address.js";
import { get, path, send } from "../lib/api.js";
import { download } from "../lib/export.js";
import { si } from "../lib/format.js";
import { keys } from "../lib/keys.js";
import { empty, panel, tabs, toast, trouble } from "../lib/panel.js";
import { editor } from "./ask/editor.js";
import { answerChart } from "./ask/chart.js";
import { answerTable } from "./ask/answer_table.js";
import { savedQueries } from "./ask/saved.js";
import { schemaPanels } from "./ask/schema.js";

export const title = "Ask";
const ROWS = ["100", "1000", "10000"];
const MIME = { csv: "text/csv", parquet: "application/vnd.apache.parquet", json: "application/json" };

export function show(place) {
  let shown = null;
  let running = null;
  const text = editor({ label: "SQL query", run: () => run(true) });
  const go = h("button", { class: "button main", type: "button", onclick: () => run(true) }, "Run", h("kbd", null, "Ctrl ↵"));
  const stop = h("button", { class: "button danger", type: "button", hidden: true, onclick: () => running?.abort() }, "Stop");
  const rows = h("select", { "aria-label": "Row limit", onchange: () => set({ rows: rows.value === "1000" ? null : rows.value }) },
    ROWS.map((each) => h("option", { value: each }, `${Number(each).toLocaleString("en")} rows`)));
  const state = h("span", { class: "note", role: "status" });
  const files = h("span", { class: "exports" }, ["csv", "parquet", "json"].map((form) =>
    h("button", { class: "button small", type: "button", title: `Download as ${form.toUpperCase()}`, onclick: () => file(form) }, form === "parquet" ? "Parquet" : form.toUpperCase())));
  const problem = h("div", { class: "message bad", role: "alert", hidden: true });
  const saved = savedQueries({ text: () => text.value, open: (sql, name) => {
    text.set(sql);
    set({ q: sql, saved: name }, true);
    run(false);
  } });
  const view = tabs("Show as", [["table", "Table"], ["chart", "Chart"]], param("show", "table"), (name) => {
    set({ show: name === "table" ? null : name });
    draw();
  });
  const query = panel("Query", { tools: [saved.element] });
  const result = panel("Answer", { tools: [view.element, files] });
  const grid = answerTable();
  const chart = answerChart();
  const first = empty("No query has run yet.", "Write one SELECT, choose an example, or open a saved query. Ctrl+Enter runs it.");
  fill(query.body, text.element, h("div", { class: "row" }, go, stop, rows, state), problem);
  fill(result.body, first, grid.element, chart.element);
  grid.element.hidden = chart.element.hidden = true;

  const beside = h("aside", { class: "ask-beside", "aria-label": "Schema and examples" });
  fill(place, h("div", { class: "ask" }, h("div", { class: "ask-main" }, query.element, result.element), beside));
  get(path("/sql/schema")).then((schema) => fill(beside, schemaPanels(schema, { insert: text.insert, open: (sql) => {
    text.set(sql);
    run(true);
  } }))).catch((error) => fill(beside, trouble(error)));

  async function run(push) {
    const sql = text.value.trim();
    if (!sql) return;
    if (push) set({ q: sql, saved: saved.is(sql) ? param("saved") : null }, true);
    running?.abort();
    const mine = (running = new AbortController());
    const begin = performance.now();
    busy(true);
    const timer = setInterval(() => say(state, `Running, ${((performance.now() - begin) / 1000).toFixed(1)} s`), 100);
    try {
      const answer = await ask(sql, "json", mine.signal);
      shown = answer;
      grid.set(shown);
      chart.set(shown);
      draw();
      const more = answer.truncated ? ": there are more" : "";
      say(state, `${answer.rows.length.toLocaleString("en")} rows${more}, ${answer.seconds.toFixed(2)} s`);
    } catch (error) {
      if (mine !== running) return;
      if (error.name === "AbortError") say(state, `Stopped after ${((performance.now() - begin) / 1000).toFixed(1)} s`);
      else failed(error);
    } finally {
      clearInterval(timer);
      if (mine === running) busy(false);
    }
  }

  async function ask(sql, format, signal, raw = false) {
    problem.hidden = true;
    text.mark(null);
    return send("POST", path("/sql", {}, { scope: true }), { sql, format, limit: Number(rows.value) }, { signal, raw });
  }

  function busy(on) {
    if (!on) running = null;
    stop.hidden = !on;
    go.disabled = on;
    result.element.classList.toggle("stale", on);
  }

  function failed(error) {
    say(state, "");
    problem.hidden = false;
    fill(problem, error.message);
    const { line, column } = error.body ?? {};
    text.mark(line ?? null, column ?? null);
  }

  async function file(form) {
    const sql = text.value.trim();
    if (!sql) return;
    try {
      const answer = await ask(sql, form, undefined, true);
      download(`answer.${form}`, await answer.blob(), MIME[form]);
      if (answer.headers.get("hopscope-truncated") === "true") toast(`The file has the first ${si(rows.value)} rows: there are more.`);
    } catch (error) {
      failed(error);
    }
  }

  function draw() {
    const charted = param("show") === "chart";
    first.hidden = shown !== null;
    grid.element.hidden = !shown || charted;
    chart.element.hidden = !shown || !charted;
    if (shown && charted) chart.draw();
  }

  async function arrive() {
    rows.value = ROWS.includes(param("rows")) ? param("rows") : "1000";
    view.draw(param("show", "table"));
    let sql = param("q");
    if (!sql && param("saved")) sql = (await saved.read(param("saved"))) ?? "";
    if (sql && sql !== text.value) {
      text.set(sql);
      run(false);
    }
    draw();
  }

  const ended = keys({ Enter: { text: "Write a query", run: () => text.focus() } });
  arrive();
  return { end() {
    ended();
    running?.abort();
  }, change: arrive };
}
