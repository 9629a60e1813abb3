/** The frame round every view: rail of pages, bar with title, range, theme and state of the connection. */

import { account } from "./account.js";
import { h, svg, fill, keyed, mark, say } from "./dom.js";
import { link, set } from "./address.js";
import { openFinder } from "./finder.js";
import { ago, inLocalTime, setZone, zone } from "./format.js";
import { keys, showKeys } from "./keys.js";
import { connection, failed, followConnection, setPaused, unanswered, watch } from "./live.js";
import { go } from "./address.js";
import { asksCluster, followMembers, learnConsoles, otherConsoles, whose } from "./members.js";
import { icon, PAGES } from "./pages.js";
import { rangeControl } from "./range.js";
import { session } from "./session.js";
import { isDark, setTheme } from "./theme.js";

const MARK = "M4 10C8 1 12 1 15 7s7 6 11-3";

/** Build the frame; returns the container for views, and functions that update the frame. */
export function buildShell() {
  const rail = buildRail();
  const title = h("h1", { tabindex: "-1" });
  const range = rangeControl();
  const state = h("button", { class: "chip dot", type: "button", onclick: () => setPaused(connection.state !== "paused") });
  const scope = h("button", { class: "chip", type: "button", hidden: true, onclick: () => set({ scope: asksCluster() ? null : "cluster" }, true) });
  const find = h("button", { class: "button find", type: "button", onclick: openFinder, "aria-label": "Find" }, h("span", null, "Find …"), svgFind(), h("kbd", null, "/"));
  const colours = h("button", { class: "button", type: "button", "aria-label": "Light or dark", title: "Light or dark",
    onclick: () => setTheme(isDark() ? "light" : "dark") }, "◐");
  const times = h("button", { class: "button times", type: "button", title: "Time zone", onclick: () => {
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
  let page = null;
  function drawBanners() {
    const items = memberBanners(page);
    if (connection.state === "lost") items.push({ key: "lost", mood: "bad", text: connection.tooMany ? "Too many live views are open from this address: close a tab. The values shown are old." : `The server has not answered for ${ago(connection.sinceMs).replace(" ago", "")}: the values shown are old. Trying again.` });
    if (failed()) items.push({ key: "failed", mood: "bad", text: "The server cannot compute some of these values because of an internal error: see its log." });
    for (const each of ready?.components ?? []) {
      if (!each.ready) items.push({ key: each.name, mood: "warn", text: `${each.name}: ${inLocalTime(each.detail)}`, to: link("/system") });
    }
    keyed(banners, items, (each) => each.key + each.text, (each) =>
      h("div", { class: `banner ${each.mood}` }, each.text, each.to && h("a", { href: each.to }, "System"), each.more));
  }
  function drawScope() {
    const found = asksCluster() ? whose() : null;
    const lacks = found && (Object.keys(found.missing).length > 0 || found.local);
    scope.hidden = !session.cluster;
    scope.className = `chip${lacks ? " warn" : ""}`;
    scope.title = asksCluster() ? "Show this member alone" : "Show all members of the cluster";
    say(scope, scopeText(found));
  }
  followConnection(drawState);
  drawState();
  watch("/readyz", (data) => {
    ready = data?.components ? data : null;
    drawBanners();
  });
  setInterval(() => {
    if (connection.state === "lost") drawBanners();
    drawScope();
  }, 1000);
  followMembers(() => {
    drawScope();
    drawBanners();
  });

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
    /** Show the present page. */
    arrive(at, text, focus) {
      page = at;
      rail.mark(page);
      say(title, text);
      document.title = `${text} · Hopscope`;
      range.update();
      learnConsoles();
      drawScope();
      drawBanners();
      if (focus) title.focus({ preventScroll: true });
    },
  };
}

function scopeText(found) {
  if (!asksCluster()) return session.member ? `Member ${session.member}` : "This member";
  if (!found) return unanswered().some((each) => each.includes("scope=cluster")) ? "Cluster: asking …" : "Cluster";
  const [there, missing] = [found.answered.length, Object.keys(found.missing).length];
  if (found.local) return "Cluster: local only";
  return missing ? `Cluster: ${there} of ${there + missing} members` : `Cluster: ${there} member${there === 1 ? "" : "s"}`;
}

/** Notes on a view of all members: which ones did not answer, and which parts show one member only. */
function memberBanners(page) {
  const [items, found] = [[], asksCluster() ? whose() : null];
  if (found?.local) items.push({ key: "local", mood: "warn", text: `Only ${session.member} is shown: ${found.local}` });
  if (found?.withoutLake) items.push({ key: "lake", mood: "warn", text: `Events come from the members' own histories, without the lake: ${found.withoutLake}` });
  const missing = Object.entries(found?.missing ?? {});
  if (missing.length) items.push({ key: "missing", mood: "warn", to: link("/system", { part: "cluster" }), text: `Not included: ${missing.map(([name, reason]) => `${name} (${reason})`).join(", ")}.` });
  if (asksCluster() && page?.alone) {
    const elsewhere = otherConsoles().map(([name, address]) => h("a", { href: new URL(page.to, address).href }, name));
    items.push({ key: `alone${elsewhere.length}`, mood: "note", text: page.alone.replace("this member", session.member ?? "this member"), more: elsewhere.length > 0 && [h("span", null, "Others: "), elsewhere] });
  }
  return items;
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
  fill(foot, h("a", { href: "/api/v0/openapi.json" }, "API"));
  let shown = null;
  const reveal = () => {
    if (!shown) return;
    element.scrollLeft = shown.offsetLeft - (element.clientWidth - shown.offsetWidth) / 2;  // on a phone the rail is a row
    const above = shown.offsetTop - element.scrollTop;
    if (above < 0 || above + shown.offsetHeight > element.clientHeight) element.scrollTop = shown.offsetTop - (element.clientHeight - shown.offsetHeight) / 2;
  };
  new ResizeObserver(reveal).observe(element);
  return {
    element,
    mark(rail) {
      for (const each of links) {
        mark(each.element, "aria-current", each.page === rail ? "page" : null);
        each.element.href = link(each.page.to);
      }
      shown = links.find((each) => each.page === rail)?.element ?? null;
      reveal();
    },
  };
}
