/** Tables of flows and of groups, and updates that wait while a row is being read. */

import { h, fill } from "../../lib/dom.js";
import { here, link } from "../../lib/address.js";
import { ago, duration, nodeName, percent, protocol, si, words } from "../../lib/format.js";
import { asksCluster } from "../../lib/members.js";
import { placeLink } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

const end = (address, port) => (port ? (address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`) : address);
const number = (value) => (value === null || value === undefined ? null : Number(value));
const time = (ns) => (ns === null || ns === undefined ? "–" : duration(ns));

/** Flows, sorted by the server. */
export function flowTable(onSort) {
  const rows = table({
    label: "Flows", key: (each) => each.flow.id + (each.member ?? ""), sort: "-latency",
    href: (each) => link(["flows", each.flow.id]), mood: (each) => (each.alarms.length ? "bad" : each.state === "past" ? "past" : ""),
    onSort, empty: h("div"),
    columns: [
      { name: "flow", title: "Source → destination", sorts: false, value: (each) => `${end(each.flow.src, each.flow.sport)} > ${end(each.flow.dst, each.flow.dport)}`,
        cell: (each) => h("a", { href: link(["flows", each.flow.id]) }, `${end(each.flow.src, each.flow.sport)} → ${end(each.flow.dst, each.flow.dport)}`) },
      { name: "latency", title: "Latency", number: true, ns: true, phone: "plain", help: "Latest value; for a past flow, the highest value in history (values that were not stored may have been higher)", value: (each) => number(each.latency_ns ?? each.history?.highest_latency_ns),
        cell: (each) => (each.latency_ns === null && each.history ? `≥ ${time(each.history.highest_latency_ns)}` : time(each.latency_ns)) },
      { name: "mean_latency", title: "Mean", number: true, ns: true, value: (each) => each.latency_mean_ns, cell: (each) => time(each.latency_mean_ns) },
      { name: "proto", title: "Protocol", sorts: false, phone: "plain", cell: (each) => protocol(each.flow.proto) },
      { name: "state", title: "State", sorts: false, phone: "plain", value: stateText, cell: (each) => h("span", { class: each.alarms.length ? "bad" : each.state === "past" ? "faint" : "" }, stateText(each)) },
      { name: "hops", title: "Hops", number: true, phone: "minor", cell: (each) => each.hop_count ?? "–" },
      { name: "packets", title: "Reports", number: true, value: (each) => number(each.packets), cell: (each) => (each.packets === null ? "–" : si(each.packets)) },
      { name: "path_changes", title: "Path changes", number: true, sorts: false, help: "In the time range; only with Past or All", value: (each) => each.history?.path_changes ?? null, cell: (each) => each.history?.path_changes ?? "–" },
      { name: "first_seen", title: "First seen", number: true, phone: "minor", cell: (each) => ago(each.first_seen), value: (each) => each.first_seen },
      { name: "last_seen", title: "Last seen", number: true, phone: "plain", cell: (each) => ago(each.last_seen), value: (each) => each.last_seen },
      ...(asksCluster() ? [{ name: "member", title: "Member", sorts: false, cell: (each) => each.member ?? "–", value: (each) => each.member }] : []),
    ],
  });
  return withNone(rows);
}

function stateText(each) {
  if (each.state === "past") return "○ left";
  const more = [each.has_loop && "loop", each.path_incomplete && "path incomplete", ...each.alarms.map(words)].filter(Boolean);
  return more.length ? `▲ ${more.join(", ")}` : "● live";
}

/** Groups of flows. */
export function groupTable(onSort) {
  let sum = 1;
  const drill = (each) => {
    const { query } = here();
    const text = [query.get("q"), each.search].filter(Boolean).join(" ");
    return link("/flows", { q: text, state: query.get("state") });
  };
  const rows = table({
    label: "Groups of flows", key: (each) => each.search, href: drill, sort: "-packets", empty: h("div"),
    onSort(sort) {  // the server returns the largest groups
      const down = `-${sort.replace(/^-/, "")}`;
      rows.setSort(down);
      onSort(down);
    },
    columns: [
      { name: "key", title: "Group", sorts: false, value: (each) => each.key, cell: (each) => (each.path
        ? h("a", { href: drill(each) }, each.path.map(nodeName).join(" › "))
        : each.node && each.port ? h("span", null, placeLink(each.node, each.port), " ", h("a", { class: "note", href: drill(each) }, "flows")) : h("a", { href: drill(each) }, each.key)) },
      { name: "flows", title: "Flows", number: true, cell: (each) => si(each.flows), value: (each) => each.flows },
      { name: "packets", title: "Reports", number: true, value: (each) => Number(each.packets), cell: (each) =>
        h("span", null, h("span", { class: "meter" }, h("i", { style: { width: `${(100 * Number(each.packets)) / sum}%` } })), h("span", null, si(each.packets))) },
      { name: "share", title: "Of the largest", number: true, sorts: false, help: "Reports as a share of those of the largest group", value: (each) => Number(each.packets) / sum, cell: (each) => percent(Number(each.packets) / sum) },
      { name: "latency", title: "Highest latency", number: true, ns: true, help: "Highest latency: the latest of each live flow, the highest of each past flow; by switch or port, that of the hop", cell: (each) => time(each.latency_highest_ns), value: (each) => Number(each.latency_highest_ns) },
      { name: "mean_latency", title: "Mean latency", number: true, ns: true, help: "Of all reports of these flows", cell: (each) => time(each.latency_mean_ns), value: (each) => each.latency_mean_ns },
    ],
  });
  const made = withNone(rows);
  return { ...made, update(items) {
    sum = Math.max(1, ...items.map((each) => Number(each.packets)));
    made.update(items);
  } };
}

function withNone(rows) {
  const none = h("div", { hidden: true });
  const element = h("div", null, rows.element, none);
  return {
    ...rows, element,
    update(items) {
      rows.update(items);
      none.hidden = items.length > 0;
      rows.element.hidden = !items.length;
    },
    none: (content) => fill(none, content),
  };
}

/**
 * Give updates to `show`; while the pointer or the focus is on a row, rows keep their places: only values of rows that
 * are still there change. `mark(on)` says so.
 */
export function holding(place, show, mark) {
  let order = null;
  let waiting = null;
  let over = false;
  const isHeld = () => over || Boolean(document.activeElement?.closest?.("tbody") && place.contains(document.activeElement));
  const keyOf = (each) => (each.flow ? each.flow.id + (each.member ?? "") : each.search);

  function take(data) {
    if (!order || !isHeld()) {
      order = data.items;
      waiting = null;
      mark(false);
      return show(data);
    }
    waiting = data;
    const fresh = new Map(data.items.map((each) => [keyOf(each), each]));
    order = order.map((each) => fresh.get(keyOf(each)) ?? each);
    mark(true);
    return show({ ...data, items: order });
  }
  const release = () => setTimeout(() => {
    if (!isHeld() && waiting) take(waiting);
  });
  const enter = (event) => {
    over = event.pointerType === "mouse" && Boolean(event.target.closest("tbody"));
    if (!over) release();
  };
  const leave = () => {
    over = false;
    release();
  };
  place.addEventListener("pointerover", enter);
  place.addEventListener("pointerleave", leave);
  place.addEventListener("focusout", release);
  return {
    take,
    clear() {
      order = waiting = null;
      mark(false);
    },
    end() {
      place.removeEventListener("pointerover", enter);
      place.removeEventListener("pointerleave", leave);
      place.removeEventListener("focusout", release);
    },
  };
}
