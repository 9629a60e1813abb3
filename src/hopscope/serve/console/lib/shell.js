/** The frame round every view: rail of pages, bar with title, range, theme and state of the connection. */

import { account } from "./account.js";
import { h, svg, fill, keyed, mark, say } from "./dom.js";
import { here, link, set } from "./address.js";
import { openFinder } from "./finder.js";
import { ago, setZone, zone } from "./format.js";
import { keys, showKeys } from "./keys.js";
import { connection, failed, followConnection, setPaused, watch } from "./live.js";
import { go } from "./address.js";
import { icon, PAGES } from "./pages.js";
import { rangeControl } from "./range.js";
import { session } from "./session.js";
import { isDark, setTheme } from "./theme.js";
import { path } from "./api.js";

const MARK = "M4 10C8 1 12 1 15 7s7 6 11-3";

/** Build the frame; returns where views go, and what changes the frame. */
export function buildShell() {
  const rail = buildRail();
  const title = h("h1", { tabindex: "-1" });
  const range = rangeControl();
  const state = h("button", { class: "chip dot", type: "button", onclick: () => setPaused(connection.state !== "paused") });
  const scope = h("button", { class: "chip", type: "button", hidden: true, onclick: () => set({ scope: here().query.get("scope") === "cluster" ? null : "cluster" }, true) });
  const find = h("button", { class: "button find", type: "button", onclick: openFinder, "aria-label": "Find" }, h("span", null, "Find …"), svgFind(), h("kbd", null, "/"));
  const colours = h("button", { class: "button", type: "button", "aria-label": "Light or dark", title: "Light or dark",
    onclick: () => setTheme(isDark() ? "light" : "dark") }, "◐");
  const times = h("button", { class: "button", type: "button", title: "Time zone of all times", onclick: () => {
    setZone(zone() === "utc" ? "local" : "utc");
    location.reload();
  } }, zone() === "utc" ? "UTC" : "Local");
  const help = h("button", { class: "button keys", type: "button", "aria-label": "Keys", title: "Keys", onclick: showKeys }, "?");
  const banners = h("div", { "aria-live": "polite" });
  const place = h("main", { class: "place", id: "view", tabindex: "-1" });
  document.body.prepend(
    h("a", { class: "skip", href: "#view", onclick: (event) => {
      event.preventDefault();
      place.focus();
    } }, "Skip to content"),
    h("div", { class: "shell" }, rail.element,
      h("div", { class: "main" },
        h("header", { class: "bar" }, title, state, scope, h("span", { class: "grow" }), find, range.element, times, colours, help, account()),
        banners, place)));

  function drawState() {
    const texts = { live: "Live", connecting: "Connecting", paused: "Paused", lost: "Connection lost" };
    say(state, texts[connection.state]);
    state.className = `chip dot ${{ live: "good", lost: "bad", paused: "warn" }[connection.state] ?? ""}`;
    state.title = connection.state === "paused" ? "Resume (Space)" : "Pause (Space)";
    place.classList.toggle("stale", connection.state === "lost");
    drawBanners();
  }

  let ready = null;
  let known = 0;
  function drawBanners() {
    const items = [];
    if (connection.state === "lost") items.push({ key: "lost", mood: "bad", text: connection.tooMany ? "Too many live views are open at this address: close a tab. What you see is old." : `The server has not answered for ${ago(connection.sinceMs).replace(" ago", "")}: the values shown are old. Trying again.` });
    if (failed()) items.push({ key: "failed", mood: "bad", text: "The server cannot work out some of these values, because of an error of its own: its log names it." });
    for (const each of ready?.components ?? []) {
      if (!each.ready) items.push({ key: each.name, mood: "warn", text: `${each.name}: ${each.detail}`, to: link("/system") });
    }
    keyed(banners, items, (each) => each.key + each.text, (each) =>
      h("div", { class: `banner ${each.mood}` }, each.text, each.to && h("a", { href: each.to }, "System")));
  }
  followConnection(drawState);
  drawState();
  watch("/readyz", (data) => {
    ready = data?.components ? data : null;
    known = Date.now();
    drawBanners();
  });
  watch(path("/summary"), (data, status) => status === 200 && rail.update(data));
  setInterval(() => connection.state === "lost" && drawBanners(), 1000);

  keys({
    "/": { text: "Find", run: openFinder },
    " ": { text: "Pause, resume", run: () => setPaused(connection.state !== "paused") },
    "?": { text: "Keys", run: showKeys },
    t: { text: "Light or dark", run: () => colours.click() },
    r: { text: "Time range", run: () => range.element.querySelector("button").click() },
    ...Object.fromEntries(PAGES.filter((each) => each.rail).map((each) => [`g ${each.key}`, { text: each.rail, run: () => go(link(each.to)) }])),
  });

  return {
    place,
    title,
    /** Show where we are. */
    arrive(page, text, focus) {
      rail.mark(page);
      say(title, text);
      document.title = `${text} · Hopscope`;
      range.update();
      scope.hidden = !session.cluster;
      say(scope, here().query.get("scope") === "cluster" ? "Cluster" : "This member");
      if (focus) title.focus({ preventScroll: true });
    },
  };
}

function svgFind() {
  return svg("svg", { viewBox: "0 0 16 16", width: "14", height: "14", fill: "none", stroke: "currentColor", "stroke-width": "1.6", "aria-hidden": "true" },
    svg("path", { d: "M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9M10.5 10.5 14 14" }));
}

function buildRail() {
  const brand = h("a", { class: "brand", href: "/" },
    svg("svg", { viewBox: "0 0 30 14", fill: "none", stroke: "currentColor", "stroke-width": "1.6", "aria-hidden": "true" },
      svg("path", { d: MARK }), svg("circle", { cx: "4", cy: "10", r: "2.2", fill: "currentColor" }),
      svg("circle", { class: "dot", cx: "15", cy: "7", r: "2.2", stroke: "none" }), svg("circle", { cx: "26", cy: "4", r: "2.2", fill: "currentColor" })),
    "Hopscope");
  const links = PAGES.filter((page) => page.rail).map((page) => ({ page, element: h("a", { class: "page", href: page.to }, icon(page), h("span", null, page.rail), h("span", { class: "count" })) }));
  const foot = h("div", { class: "foot" });
  const element = h("nav", { class: "rail", "aria-label": "Pages" }, brand, links.map((each) => each.element), h("span", { class: "grow" }), foot);
  fill(foot, h("a", { href: "/api/v0/openapi.json" }, "API"), h("span", { class: "version" }));
  return {
    element,
    mark(rail) {
      for (const each of links) {
        mark(each.element, "aria-current", each.page === rail ? "page" : null);
        each.element.href = link(each.page.to);
      }
    },
    update(summary) {
      say(foot.lastChild, summary.version ? `Version ${summary.version}` : "");
    },
  };
}
