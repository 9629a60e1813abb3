/** The schema beside the query: a click on a name inserts it. */

import { h } from "../../lib/dom.js";
import { si, span } from "../../lib/format.js";
import { panel, prose } from "../../lib/panel.js";

/**
 * @param {any} schema the answer of /api/v0/sql/schema
 * @param {{insert: (name: string) => void, open: (sql: string) => void}} act
 */
export function schemaPanels(schema, { insert, open }) {
  const name = (text, meaning) => h("button", { class: "mono name", type: "button", title: `${meaning}. Click to insert.`, onclick: () => insert(text) }, text);
  const column = (each) => h("li", null, name(each.name, each.meaning),
    h("span", { class: "faint" }, ` ${each.type}${each.unit ? `, ${each.unit}` : ""}`), h("span", { class: "meaning" }, prose(each.meaning)));
  const examples = panel("Examples", { class: "examples" });
  examples.body.append(h("ul", null, schema.examples.map((each) =>
    h("li", null, h("button", { class: "link", type: "button", title: each.sql, onclick: () => open(each.sql) }, each.title)))));
  const views = panel("Views", { note: "click a name to insert it into the query" });
  views.body.append(
    ...schema.views.map((view, at) => h("details", { open: at === 0 }, h("summary", null, h("code", null, view.name), h("small", null, ` ${view.columns.length} columns`)),
      h("p", { class: "note" }, name(view.name, view.meaning), " ", prose(view.meaning)), h("ul", { class: "columns" }, view.columns.map(column)))),
    h("details", null, h("summary", null, "In a cluster"), h("ul", { class: "columns" }, schema.cluster_columns.map(column))),
    h("p", { class: "note" }, `One SELECT in DuckDB's SQL. At most ${si(schema.limits.rows)} rows, ${span(schema.limits.seconds)} and ${Math.round(schema.limits.memory_bytes / 2 ** 20)} MiB: serve.sql_rows, serve.sql_seconds, serve.sql_memory_bytes.`));
  return [examples.element, views.element];
}
