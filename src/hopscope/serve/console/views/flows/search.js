/** The flow search: a text field that completes switch names, with help for all search terms. */

import { h, fill } from "../../lib/dom.js";
import { get, path } from "../../lib/api.js";
import { nodeName } from "../../lib/format.js";

const HELP = [
  ["10.0.0.0/8", "a network, at either end"],
  ["10.1.2.3:443", "an address with its port; [2001:db8::1]:443"],
  ["443", "a port, at either end"],
  ["10.0.0.0/8 > 10.1.2.3", "from the first to the second"],
  ["src:10.0.0.0/8", "source network; dst: destination network"],
  ["sport:443", "source port; dport: destination port"],
  ["tcp", "a protocol; proto:6"],
  ["node:7", "a switch on the path; its name alone works too"],
  ["leaf-1 egress:3", "flows that leave a switch through a port"],
];
const KEYS = ["src:", "dst:", "port:", "sport:", "dport:", "proto:", "node:", "egress:", "tcp", "udp", "icmp"];
const MOST = 8;

/** @param {(text: string) => void} search called when Enter is pressed, a word chosen or the text cleared */
export function searchBox(search) {
  const input = h("input", { type: "search", placeholder: "10.0.0.0/8 > 10.1.2.3:443 tcp leaf-1", "aria-label": "Search for flows", autocomplete: "off",
    spellcheck: "false", role: "combobox", "aria-expanded": "false", "aria-controls": "flow-words", "aria-autocomplete": "list" });
  const list = h("ul", { role: "listbox", id: "flow-words", class: "menu words", hidden: true, "aria-label": "Suggestions" });
  const help = h("div", { class: "menu search-help", hidden: true }, h("p", { class: "soft" }, "All terms must match."), h("table", null, h("tbody", null, HELP.map(([text, what]) =>
    h("tr", null, h("td", null, h("button", { type: "button", class: "mono", title: "Add this to the search", onclick: () => add(text) }, text)), h("td", null, what))))));
  const ask = h("button", { class: "button", type: "button", "aria-expanded": "false", title: "Search syntax", onclick: () => open(help.hidden) }, "Syntax");
  const element = h("form", { class: "filters flow-search", role: "search", onsubmit: (event) => {
    event.preventDefault();
    if (chosen >= 0) return complete(options[chosen]);
    close();
    search(input.value.trim());
  } }, h("span", { class: "box" }, input, list), h("button", { class: "button main", type: "submit" }, "Search"), h("span", { class: "range" }, ask, help));
  let names = [];
  let options = [];
  let chosen = -1;

  const open = (on) => {
    help.hidden = !on;
    ask.setAttribute("aria-expanded", String(on));
  };
  const close = () => {
    options = [];
    chosen = -1;
    draw();
  };
  function add(text) {
    input.value = `${input.value.trim()} ${text}`.trim();
    open(false);
    input.focus();
  }

  function complete(word) {
    const before = input.value.replace(/\S*$/, "");
    input.value = before + (/\s/.test(word) ? `node:"${word}"` : word) + (word.endsWith(":") ? "" : " ");
    close();
    input.focus();
  }

  function offer() {
    const word = (/\S*$/.exec(input.value)?.[0] ?? "").replace(/^node:/, "").toLowerCase();
    options = word.length < 2 ? [] : [...KEYS, ...names].filter((each) => each.toLowerCase().includes(word) && each.toLowerCase() !== word).slice(0, MOST);
    chosen = -1;
    draw();
  }

  function draw() {
    list.hidden = !options.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    fill(list, options.map((word, at) => h("li", { role: "option", id: `flow-word-${at}`, "aria-selected": String(at === chosen), onpointerdown: (event) => {
      event.preventDefault();
      complete(word);
    } }, word)));
    if (chosen >= 0) input.setAttribute("aria-activedescendant", `flow-word-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
  }

  input.addEventListener("input", () => {
    offer();
    if (!input.value) search("");
  });
  input.addEventListener("keydown", (event) => {
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && options.length) {
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : options.length + (chosen < 0 ? 0 : -1))) % options.length;
      draw();
      event.preventDefault();
    } else if (event.key === "Tab" && options.length && !event.shiftKey) {
      complete(options[Math.max(0, chosen)]);
      event.preventDefault();
    } else if (event.key === "Escape" && options.length) {
      close();
      event.preventDefault();
    }
  });
  input.addEventListener("blur", close);
  input.addEventListener("focus", () => {
    if (!names.length) get(path("/switches", { limit: 1000 }, { scope: true })).then((found) => (names = found.items.map((each) => nodeName(each.node))), () => {});
  });
  element.addEventListener("focusout", (event) => !element.contains(event.relatedTarget) && event.relatedTarget && open(false));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || help.hidden) return;
    open(false);
    ask.focus();
  });

  return {
    element,
    set(text) {
      if (document.activeElement !== input || !input.value.trim() || input.value.trim() !== text) if (input.value !== text) input.value = text;
    },
    invalid: (on) => input.setAttribute("aria-invalid", String(on)),
    focus: () => input.focus(),
  };
}
