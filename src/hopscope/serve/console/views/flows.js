/** Flows: search by any part of a 5-tuple, prefix and switch; live and past ones; grouped. */

import { h, fill, say } from "../lib/dom.js";
import { here, link, set } from "../lib/address.js";
import { path } from "../lib/api.js";
import { exports } from "../lib/export.js";
import { si } from "../lib/format.js";
import { watch } from "../lib/live.js";
import { empty, noReports, panel, tabs } from "../lib/panel.js";
import { flowTable, groupTable, holding } from "./flows/tables.js";
import { searchBox } from "./flows/search.js";

export const title = "Flows";
const PAGE = 100;
const STATES = [["live", "Live"], ["past", "Past"], ["all", "All"]];
const GROUPS = [["", "Flows"], ["src", "Source"], ["dst", "Destination"], ["src_prefix", "Source /24"], ["dst_prefix", "Destination /24"],
  ["proto", "Protocol"], ["path", "Path"], ["switch", "Switch"], ["port", "Port"]];

/** Groups of live flows only: history has no hops of a flow. */
const OF_LIVE = new Set(["path", "switch", "port"]);

export function show(place, address) {
  if (adopt(address.query)) address = here();
  const box = searchBox((q) => set({ q, offset: null }, true));
  const state = tabs("Which flows", STATES, stateOf(address.query), (name) => set({ state: name, offset: null }));
  const by = tabs("Grouped by", GROUPS, address.query.get("by") ?? "", (name) => set({ by: name, sort: null, offset: null }));
  const problem = h("div", { class: "message bad", role: "alert", hidden: true });
  const flows = flowTable((sort) => set({ sort: sort === "-latency" ? null : sort, offset: null }));
  const groups = groupTable((sort) => set({ sort: sort === "-packets" ? null : sort, offset: null }));
  const list = panel("Flows", { tools: [exports("flows", { table: () => shown().export(), json: () => newest })] });
  const pages = h("div", { class: "row", role: "navigation", "aria-label": "Pages" });
  const body = h("div");
  fill(list.body, body, pages);
  fill(place, h("div", { class: "view-head" }, box.element), problem,
    h("div", { class: "view-head" }, state.element, h("span", { class: "grow" }), by.element), list.element);

  let stop = () => {};
  let asked = "";
  let newest = null;
  const grouped = () => Boolean(here().query.get("by"));
  const shown = () => (grouped() ? groups : flows);
  const held = holding(list.body, (data) => {
    newest = data;
    shown().update(data.items);
    drawNote(data);
    drawPages(data);
  }, (on) => list.element.classList.toggle("held", on));

  function change({ query }) {
    box.set(query.get("q") ?? "");
    state.draw(stateOf(query));
    by.draw(query.get("by") ?? "");
    flows.setSort(query.get("sort") ?? "-latency");
    state.element.hidden = OF_LIVE.has(query.get("by"));
    groups.setSort(query.get("sort") ?? "-packets");
    list.element.querySelector("h2").textContent = grouped() ? `Flows by ${GROUPS.find(([name]) => name === query.get("by"))?.[1].toLowerCase() ?? "group"}` : "Flows";
    const request = requestOf(query);
    if (request === asked) return;
    asked = request;
    stop();
    held.clear();
    if (body.firstChild !== shown().element) fill(body, shown().element);
    stop = watch(request, (data, status) => {
      problem.hidden = status === 200;
      box.invalid(status === 400);
      if (status === 200) held.take(data);
      else say(problem, String(data?.error ?? "This could not be read.").replace(/^q: /, ""));
      list.element.classList.toggle("stale", status !== 200);
    });
  }

  function drawNote(data) {
    const range = here().query.has("from") ? "in the time range" : "of the last 15 min";
    const which = { live: "live", past: `past, ${range}`, all: `live, and past ${range}` }[stateOf(here().query)];
    const of = grouped() ? `${si(data.total)} groups of ${si(data.flows)} flows` : `${data.total.toLocaleString("en")} flow${data.total === 1 ? "" : "s"}`;
    list.note(`${of} · ${which}${data.truncated ? " · the oldest past flows are not shown" : ""}`);
    if (!data.total) shown().none(nothing());
  }

  function drawPages({ total, offset, items }) {
    pages.hidden = total <= PAGE;
    if (pages.hidden) return;
    const to = (at) => h("a", { class: "button", href: link("/flows", { ...Object.fromEntries(here().query), offset: at || null }) }, at < offset ? "Previous" : "Next");
    const text = `${(offset + 1).toLocaleString("en")} to ${(offset + items.length).toLocaleString("en")} of ${total.toLocaleString("en")}`;
    if (pages.dataset.text === text) return;
    pages.dataset.text = text;
    fill(pages, h("span", { class: "soft" }, text), offset > 0 && to(Math.max(0, offset - PAGE)), offset + PAGE < total && to(offset + PAGE));
  }

  change(address);
  return { change, end: () => {
    stop();
    held.end();
  } };
}

/** Turn the switch and port that other pages put into the address into search terms. Returns whether the address has changed. */
function adopt(query) {
  if (!query.has("node") && !query.has("egress")) return false;
  const node = query.get("node");
  const words = [query.get("q"), node && `node:${/\s/.test(node) ? `"${node}"` : node}`, query.get("egress") && `egress:${query.get("egress")}`];
  set({ q: words.filter(Boolean).join(" "), node: null, egress: null });
  return true;
}

function stateOf(query) {
  const state = OF_LIVE.has(query.get("by")) ? "live" : query.get("state");
  return STATES.some(([name]) => name === state) ? state : query.has("from") ? "all" : "live";
}

function requestOf(query) {
  const by = query.get("by");
  const state = stateOf(query);
  const common = { q: query.get("q"), state, offset: query.get("offset"), limit: PAGE };
  if (state !== "live") Object.assign(common, { since: query.get("from") ?? "-15m", until: query.get("to") === "now" ? null : query.get("to") });
  const sort = query.get("sort") ?? "";
  if (by) return path("/flows/groups", { by, ...common, sort: sort.replace(/^-/, "") }, { scope: true });
  return path("/flows", { ...common, sort: sort.replace(/^-/, ""), order: !sort || sort.startsWith("-") ? null : "asc" }, { scope: true });
}

function nothing() {
  const { query } = here();
  if (query.get("q")) {
    const live = stateOf(query) === "live";
    return empty("No flow matches.", live ? "Flows that have left the flow table are under Past. Choose a time range above for older ones." : "Choose an earlier time range above, or remove a search term.");
  }
  if (stateOf(query) === "past") return empty("No flow has left the flow table in this time range.", "A flow leaves the table when it has been idle for some time, or when the table is full.");
  return noReports("There are no live flows.", "Flows come from reports with a 5-tuple; those that have left are under Past. Point a switch at this collector, or send simulated reports:");
}
