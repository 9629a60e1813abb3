/** The console: shows the view of the address, and the next one when the address changes. */

import { h, fill } from "./lib/dom.js";
import { follow, here } from "./lib/address.js";
import { pageOf } from "./lib/pages.js";
import { empty, trouble } from "./lib/panel.js";
import { forget } from "./lib/members.js";
import { load } from "./lib/session.js";
import { buildShell } from "./lib/shell.js";

const shell = buildShell();
let shown = { page: null, path: "", scope: "", view: null };
let turn = 0;

async function arrive() {
  const address = here();
  const found = pageOf(address.path);
  const mine = ++turn;
  if (!found) {
    leave();
    fill(shell.place, empty("Page not found.", "Choose a page from the menu."));
    shell.arrive(null, "Not found", true);
    return;
  }
  const scope = address.query.get("scope") ?? "";
  if (found.page === shown.page && address.path === shown.path && scope === shown.scope && shown.view) {
    shell.arrive(found.rail, shell.title.textContent, false);
    if (shown.view.change) return void shown.view.change(address);
  }
  const first = shown.page === null;
  try {
    const module = await found.page.load();
    if (mine !== turn) return;
    leave();
    const place = h("div", { class: "view" });
    fill(shell.place, place);
    shell.arrive(found.rail, typeof module.title === "function" ? module.title(address) : module.title, !first && address.path !== shown.path);
    shown = { page: found.page, path: address.path, scope, view: null };
    const view = await module.show(place, address);
    if (mine !== turn) return void view?.end?.();
    shown.view = view;
  } catch (error) {
    if (mine !== turn) return;
    console.error(error);
    fill(shell.place, h("div", { class: "view" }, trouble(error, arrive)));
    shell.arrive(found.rail, found.rail.rail, false);
    shown = { page: found.page, path: address.path, scope, view: null };
  }
}

function leave() {
  try {
    shown.view?.end?.();
  } catch (error) {
    console.error(error);
  }
  shown = { ...shown, view: null };
  forget();
}

follow(arrive);
load().catch(() => {}).then(arrive);
