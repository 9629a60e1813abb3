/** Find: a page, switch, port or flow, by name, number or address. */

import { h, fill, keyed } from "./dom.js";
import { go, link } from "./address.js";
import { get, path } from "./api.js";
import { PAGES } from "./pages.js";

/** Open the dialog. */
export function openFinder() {
  const input = h("input", { type: "search", placeholder: "Switch, port, 10.0.0.0/8, 10.1.2.3:443, page …", "aria-label": "Find",
    autocomplete: "off", spellcheck: "false", role: "combobox", "aria-expanded": "true", "aria-controls": "found" });
  const list = h("ul", { role: "listbox", id: "found" });
  const dialog = h("dialog", { class: "finder", "aria-label": "Find" }, input, list);
  let switches = [];
  let items = [];
  let chosen = 0;

  function draw() {
    const text = input.value.trim().toLowerCase();
    items = PAGES.filter((each) => each.rail && each.rail.toLowerCase().startsWith(text)).map((each) => ({ text: each.rail, what: "page", to: link(each.to) }));
    for (const each of switches) {
      const name = each.node.name ?? String(each.node.id);
      if (text && (name.toLowerCase().includes(text) || String(each.node.id) === text)) items.push({ text: name, what: "switch", to: link("/fabric", { selected: String(each.node.id) }) });
    }
    if (text && !/^[a-z]+$/.test(text)) items.unshift({ text: `Flows: ${input.value.trim()}`, what: "flows", to: link("/flows", { q: input.value.trim() }) });
    else if (text) items.push({ text: `Flows: ${input.value.trim()}`, what: "flows", to: link("/flows", { q: input.value.trim() }) });
    items = items.slice(0, 20);
    chosen = Math.min(chosen, Math.max(0, items.length - 1));
    keyed(list, items, (each) => each.what + each.text,
      (each) => h("li", { role: "option" }, h("a", { href: each.to, tabindex: "-1", onclick: () => dialog.close() }, each.text, h("small", null, each.what))));
    [...list.children].forEach((each, at) => {
      each.setAttribute("aria-selected", String(at === chosen));
      each.id = `found-${at}`;
    });
    input.setAttribute("aria-activedescendant", `found-${chosen}`);
  }

  input.addEventListener("input", draw);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : items.length - 1)) % Math.max(1, items.length);
      draw();
      event.preventDefault();
    } else if (event.key === "Enter" && items[chosen]) {
      dialog.close();
      go(items[chosen].to);
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  fill(list);
  draw();
  get(path("/switches", { limit: 1000 }, { scope: true })).then((found) => {
    switches = found.items;
    draw();
  }, () => {});
}
