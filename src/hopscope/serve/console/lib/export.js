/** Every view as CSV, JSON and PNG. */

import { h } from "./dom.js";

/** Texts that a spreadsheet would run as a formula; the same rule as in `hopscope.present.spreadsheet`. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠][^]/;
const NUMBER = /^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;

/** CSV of rows (RFC 4180). Text that a spreadsheet would run as a formula gets an apostrophe. */
export function csv(names, rows) {
  const cell = (value) => {
    let text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    if (FORMULA.test(text) && !NUMBER.test(text)) text = "'" + text;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Hand a file to the browser. `content`: text or Blob. */
export function download(name, content, type = "text/plain") {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/**
 * Buttons that export what a panel shows.
 * @param {string} name of the file, without its end
 * @param {{table?: () => {names: string[], rows: any[][]}, json?: () => any, png?: () => Promise<Blob>}} sources
 */
export function exports(name, { table, json, png }) {
  const button = (text, what, work) => h("button", { class: "button small", type: "button", title: `Download as ${text}`,
    "aria-label": `Download ${name} as ${text}`, onclick: work }, what);
  return h("span", { class: "exports" },
    table && button("CSV", "CSV", () => {
      const { names, rows } = table();
      download(`${name}.csv`, csv(names, rows), "text/csv");
    }),
    json && button("JSON", "JSON", () => download(`${name}.json`, JSON.stringify(json(), null, 1), "application/json")),
    png && button("PNG", "PNG", async () => download(`${name}.png`, await png(), "image/png")));
}
