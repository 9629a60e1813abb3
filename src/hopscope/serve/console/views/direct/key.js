/** A query by key, and the decoded answer. */

import { h, fill } from "../../lib/dom.js";
import { here, param, set } from "../../lib/address.js";
import { get, path } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { words } from "../../lib/format.js";
import { empty, panel, trouble } from "../../lib/panel.js";

const MOODS = { found: "good", empty: "", conflict: "warn", unreachable: "bad" };
const MEANING = {
  found: "The store has an answer.", empty: "No slot has this key: it was never written, or has been overwritten.",
  conflict: "Copies disagree: several values match the key.", unreachable: "The collector that has this key does not answer.",
};
const SHOWN = ["key", "status", "votes", "decoded", "reason"];

export function keyPanel(name) {
  let store = null;
  let answers = [];
  let turn = 0;
  const key = h("textarea", { rows: 2, class: "mono", spellcheck: "false", "aria-label": "Keys, one per line", placeholder: "10.0.0.1,10.0.1.2,6,40000,443" });
  const epoch = h("select", { "aria-label": "Epoch" });
  const copies = h("input", { type: "number", min: 1, max: 16, placeholder: "all", "aria-label": "Copies written", size: 4 });
  const consensus = h("input", { type: "number", min: 1, max: 16, placeholder: "1", "aria-label": "Copies that must agree", size: 4 });
  const out = h("div");
  const form = h("form", { class: "form", onsubmit: (event) => {
    event.preventDefault();
    set({ key: key.value.split("\n").map((each) => each.trim()).filter(Boolean), epoch: epoch.value, copies: copies.value, consensus: consensus.value }, true);
    change();
  } }, h("label", null, "Keys, one per line: 0x and hexadecimal digits, a number, an address, SRC,DST,PROTO,SPORT,DPORT, or several joined with +", key),
  h("div", { class: "row" }, h("button", { class: "button main" }, "Query"), h("label", { class: "row" }, "Epoch", epoch), h("label", { class: "row" }, "Copies written", copies), h("label", { class: "row" }, "Must agree", consensus)));
  key.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  const box = panel("Query by key", { tools: exports(`${name}-answers`, { table: () => rowsOf(answers), json: () => answers }) });
  fill(box.body, form, out);

  async function change() {
    const keys = here().query.getAll("key");
    const mine = ++turn;
    key.value = keys.join("\n") || key.value;
    copies.value = param("copies");
    consensus.value = param("consensus");
    if (!keys.length) return void fill(out, empty("No key has been queried yet.", store?.primitive === "append" ? "In an Append store the key is a list's number." : "Ctrl+Enter runs the query."));
    fill(out, h("p", { class: "note", role: "status" }, "Querying the store …"));
    try {
      const found = await get(path(`/direct/stores/${encodeURIComponent(name)}/query`, { key: keys, epoch: param("epoch"), copies: param("copies"), consensus: param("consensus") }));
      if (mine !== turn) return;
      answers = found.items;
      fill(out, answers.map(card));
    } catch (error) {
      if (mine === turn) fill(out, trouble(error));
    }
  }

  return { element: box.element, change, update(given) {
    const first = store === null;
    store = given;
    const epochs = [["", "current"], ["all", "all, newest first"], ...(store.past_epochs ?? []).map((each) => [String(each), String(each)])];
    if (epoch.options.length !== epochs.length) {
      fill(epoch, epochs.map(([value, text]) => h("option", { value }, text)));
      epoch.value = param("epoch");
    }
    if (first) change();
  } };
}

/** One answer: its status in words, the votes, and what the store or its monitor says. */
function card(answer) {
  const { key, status, votes, decoded, reason, ...rest } = answer;
  const facts = Object.entries({ ...(decoded ?? {}), ...rest });
  return h("div", { class: "message answer-card" },
    h("div", { class: "row" }, h("b", { class: "mono" }, key), h("span", { class: `chip dot ${MOODS[status] ?? ""}` }, status ?? "answered"),
      votes !== undefined && h("span", { class: "soft" }, `${votes} ${votes === 1 ? "copy agrees" : "copies agree"}`),
      h("span", { class: "note" }, reason ?? MEANING[status] ?? "")),
    facts.length ? h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", null, words(name)), h("dd", { class: "mono" }, text(value))])) : null);
}

function text(value) {
  if (Array.isArray(value)) return value.map(text).join(value.length && typeof value[0] === "object" ? "; " : " → ");
  if (value && typeof value === "object") return Object.entries(value).map(([name, each]) => `${words(name)} ${text(each)}`).join(", ");
  return value === null ? "–" : String(value);
}

function rowsOf(answers) {
  const names = [...new Set([...SHOWN, ...answers.flatMap(Object.keys)])];
  return { names, rows: answers.map((each) => names.map((name) => each[name] ?? null)) };
}
