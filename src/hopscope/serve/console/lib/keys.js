/** Keys: one or two in a row, as "g f". Views add theirs with `keys`, which returns a function that removes them. */

import { h, fill } from "./dom.js";

/** @type {Set<Record<string, {text: string, run: () => void}>>} */
const groups = new Set();
let first = "";
let firstMs = 0;

/** @param {Record<string, {text: string, run: () => void}>} group */
export function keys(group) {
  groups.add(group);
  return () => groups.delete(group);
}

function find(name) {
  for (const group of [...groups].reverse()) if (group[name]) return group[name];
  return null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest?.("input, textarea, select, dialog, [contenteditable]")) return;
  const two = Date.now() - firstMs < 1200 ? `${first} ${event.key}` : "";
  const found = find(two) ?? find(event.key);
  first = event.key;
  firstMs = Date.now();
  if (!found) return;
  event.preventDefault();
  first = "";
  found.run();
});

/** A dialog with all keys. */
export function showKeys() {
  const dialog = h("dialog", { class: "help", "aria-label": "Keys" });
  const rows = [...groups].flatMap((group) => Object.entries(group));
  fill(dialog, h("h2", null, "Keys"), h("table", null, h("tbody", null, rows.map(([name, each]) =>
    h("tr", null, h("td", null, name.split(" ").map((key) => [h("kbd", null, key === " " ? "Space" : key), " "])), h("td", null, each.text))))),
  h("form", { method: "dialog" }, h("button", { class: "button" }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
