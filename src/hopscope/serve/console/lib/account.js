/** The account at the end of the bar: a link to log in, or a menu with sessions and logout. */

import { h, fill } from "./dom.js";
import { link } from "./address.js";
import { changeButton } from "./panel.js";
import { followSession, loginAddress, logOut, session } from "./session.js";

export function account() {
  const element = h("div", { class: "account" });

  function draw() {
    if (!session.user) {
      const login = h("a", { class: "button", href: loginAddress(), onclick: () => (login.href = loginAddress()) }, "Log in");
      return void fill(element, login);
    }
    const leaves = session.authenticated_by !== "proxy";
    const details = h("details", null, h("summary", { class: "chip" }, `${session.user} · ${session.role}`),
      h("div", { class: "menu" }, h("a", { class: "button", href: link("/system", { part: "access" }), onclick: () => (details.open = false) }, "Sessions"),
        leaves && changeButton("Log out", logOut, { class: "button" })));
    details.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      details.open = false;
      details.firstElementChild.focus();
    });
    fill(element, details);
  }
  document.addEventListener("click", ({ target }) => {
    const open = element.querySelector("details[open]");
    if (open && !open.contains(target)) open.open = false;
  });
  followSession(draw);
  return element;
}
