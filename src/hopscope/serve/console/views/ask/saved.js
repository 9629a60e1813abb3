/** Saved queries: a menu of links, with buttons that save and delete. */

import { h, fill } from "../../lib/dom.js";
import { link, param, set } from "../../lib/address.js";
import { get, path, send } from "../../lib/api.js";
import { ago, sentence } from "../../lib/format.js";
import { changeButton, confirmed, operatorNote, toast } from "../../lib/panel.js";
import { mayChange } from "../../lib/session.js";

const route = (name) => path(`/queries/${encodeURIComponent(name)}`);

/** @param {{text: () => string, open: (sql: string, name: string) => void}} act */
export function savedQueries({ text, open }) {
  let known = [];
  const list = h("ul", { class: "saved-list" });
  const details = h("details", { class: "saved" }, h("summary", { class: "button" }, "Saved queries"), h("div", { class: "menu" }, list));
  const save = h("button", { class: "button", type: "button", onclick: keep }, "Save …");
  const element = h("span", { class: "row" }, mayChange() && save, details);
  details.addEventListener("toggle", () => details.open && load());
  details.addEventListener("keydown", (event) => {
    if (event.key === "Escape") details.open = false;
  });

  async function load() {
    try {
      known = (await get(path("/queries"))).items;
      list.replaceChildren();
    } catch (error) {
      return void fill(list, h("li", { class: "bad" }, error.message));
    }
    fill(list, known.length ? known.map((each) => h("li", null,
      h("a", { href: link("/ask", { saved: each.name, from: null, to: null }), onclick: (event) => {
        event.preventDefault();
        details.open = false;
        open(each.sql, each.name);
      } }, each.name), h("small", null, ` ${each.who}, ${ago(each.time)}`),
      mayChange() && changeButton("Delete", () => remove(each.name), { "aria-label": `Delete ${each.name}` })))
      : h("li", { class: "soft" }, "No query is saved yet."), operatorNote("Saving a query"));
  }

  async function keep() {
    const sql = text().trim();
    if (!sql) return toast("There is no query to save.");
    const name = await named(param("saved"));
    if (!name) return;
    try {
      await send("PUT", route(name), { sql });
      set({ saved: name, q: sql });
      toast(`Saved as ${name}. The address of this page now links to it.`);
      if (details.open) load();
    } catch (error) {
      toast(sentence(error.message), "bad");
    }
  }

  async function remove(name) {
    const wanted = await confirmed(`Delete the query ${name}?`, "It is deleted for all users, and links to it stop working.", "Delete");
    if (!wanted) return false;
    known = (await send("DELETE", route(name))).items;
    return load();
  }

  return {
    element,
    is: (sql) => known.some((each) => each.name === param("saved") && each.sql === sql),
    async read(name) {
      try {
        return (await get(route(name))).sql;
      } catch (error) {
        toast(sentence(error.message), "bad");
        return null;
      }
    },
  };
}

/** Ask for a name; null: the user cancelled. */
function named(before) {
  return new Promise((resolve) => {
    const field = h("input", { name: "name", required: true, maxlength: 80, pattern: "[^\\/]+", value: before });
    const dialog = h("dialog", { "aria-label": "Save the query" }, h("form", { method: "dialog", class: "form" }, h("h2", null, "Save the query"), h("label", null, "Name", field),
      h("div", { class: "row" }, h("button", { class: "button main", value: "save" }, "Save"), h("button", { class: "button", value: "", formnovalidate: true }, "Cancel"))));
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "save" ? field.value.trim() : null);
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
    field.select();
  });
}
