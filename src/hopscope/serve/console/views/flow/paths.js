/** Paths of a flow over time: each period, and one of them compared with the current path, with the hops that differ. */

import { h, fill, keyed, say } from "../../lib/dom.js";
import { link, set } from "../../lib/address.js";
import { exports } from "../../lib/export.js";
import { ms, moment, nodeName, span, words } from "../../lib/format.js";
import { eventLink } from "../../lib/members.js";
import { empty, panel } from "../../lib/panel.js";

export function pathPanel(id) {
  let data = null;
  let chosen = null;
  const bar = h("div", { class: "path-times", role: "img" });
  const list = h("ol", { class: "path-list" });
  const beside = h("div", { hidden: true });
  const none = h("div", { hidden: true });
  const box = panel("Path over time", { class: "waits", tools: exports("flow-paths", { table: () => asTable(data), json: () => data }) });
  fill(box.body, none, bar, list, beside);

  function draw() {
    if (!data) return;
    const items = [...data.items].reverse();
    const now = pathNow(data);
    none.hidden = items.length > 0;
    if (!items.length) fill(none, empty("History has no path of this flow.", "A path is stored when it is first seen and when it changes."));
    box.note(noteOf(data));
    box.element.classList.remove("waits");
    drawBar(bar, data);
    keyed(list, items, (each) => each.event + (each.until ?? ""), (each) => {
      const line = h("li", null, h("span", { class: "when" }), h("span", { class: "nodes" }), h("span", { class: "tools row" }));
      write(line, each, now);
      return line;
    }, (line, each) => write(line, each, now));
    const shown = data.items.find((each) => each.event === chosen);
    beside.hidden = !shown;
    if (shown) fill(beside, besideNow(shown, data));
  }

  function write(line, each, now) {
    const [when, nodes, tools] = line.children;
    const old = now && nodesOf(each.path) !== nodesOf(now);
    line.className = each.event === chosen ? "chosen" : "";
    fill(when, h("b", null, lasted(each)), h("small", null, ` since ${moment(each.since)} · `, h("a", { href: eventLink({ id: each.event, member: data.member }) }, words(each.kind))));
    fill(nodes, pathText(each.path, old ? now : each.path));
    if (tools.childElementCount) return void mark(tools, each, chosen);
    const at = new Date(ms(each.since) - 1).toISOString();
    fill(tools,
      h("button", { class: "button", type: "button", hidden: !old, onclick: () => set({ path: each.event === chosen ? null : each.event }) }, "Compare with the current path"),
      each.kind === "path_change" && h("a", { class: "button", href: link(["flows", id], { at, with_at: each.since }) }, "Before and after"));
    mark(tools, each, chosen);
  }

  return {
    element: box.element,
    update(answer) {
      data = answer;
      draw();
    },
    choose(event) {
      chosen = event;
      draw();
    },
  };
}

const mark = (tools, each, chosen) => tools.firstChild.setAttribute("aria-pressed", String(each.event === chosen));
const pathNow = (data) => data.path ?? data.items.at(-1)?.path ?? null;
const nodesOf = (path) => path.map((node) => node.id).join();

function noteOf({ items, truncated }) {
  const changes = items.filter((each) => each.kind === "path_change").length;
  const text = changes ? `${changes} change${changes === 1 ? "" : "s"}, newest first` : items.length > 1 ? "newest first; no path change event" : "no change in history";
  return truncated ? `${text}; the newest are not shown` : text;
}

function lasted(each) {
  if (!each.until) return `now, for ${span((Date.now() - ms(each.since)) / 1000)}`;
  return `${span((ms(each.until) - ms(each.since)) / 1000)}${each.left ? ", until the flow left" : ""}`;
}

/** A path as text; nodes that are not in `other` are marked. */
function pathText(path, other) {
  const known = new Set(other.map((node) => node.id));
  return path.map((node, at) => [at > 0 && h("span", { class: "faint" }, " › "), known.has(node.id) ? nodeName(node) : h("b", { class: "differs", title: "Not on the other path" }, `≠ ${nodeName(node)}`)]);
}

/** A strip of time: each path has its colour. */
function drawBar(bar, { items }) {
  const kinds = [...new Set(items.map((each) => nodesOf(each.path)))];
  const begin = items.length ? ms(items[0].since) : 0;
  const total = Math.max(1, (items.length && !items.at(-1).until ? Date.now() : ms(items.at(-1)?.until ?? new Date().toISOString())) - begin);
  bar.hidden = items.length < 2;
  bar.setAttribute("aria-label", `${items.length} periods with ${kinds.length} paths, from ${moment(begin)}`);
  keyed(bar, items, (each) => each.event, () => h("i"), () => {});
  items.forEach((each, at) => {
    const end = each.until ? ms(each.until) : begin + total;
    const kind = kinds.indexOf(nodesOf(each.path));
    const part = bar.children[at];
    part.style.setProperty("flex-grow", String(Math.max(0.004, (end - ms(each.since)) / total)));
    part.className = `kind-${kind % 6}`;
    part.title = `${each.path.map(nodeName).join(" › ")}\n${moment(each.since)}`;
    say(part, (end - ms(each.since)) / total > 0.03 ? String.fromCharCode(65 + (kind % 26)) : "");
  });
}

function besideNow(then, data) {
  const now = pathNow(data);
  const rows = align(then.path, now);
  const cell = (node, only) => h("td", { class: only ? "differs" : "" }, node ? `${only ? "≠ " : ""}${nodeName(node)}` : h("span", { class: "faint" }, "–"));
  return h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Two paths" }, h("table", { class: "table beside" },
    h("thead", null, h("tr", null, h("th", null, "#"), h("th", null, `Then, since ${moment(then.since)}`), h("th", null, data.path ? "Now" : "Last"))),
    h("tbody", null, rows.map(([a, b], at) => h("tr", null, h("td", null, at + 1), cell(a, a && !b), cell(b, b && !a))))));
}

/** Two paths in rows: common nodes beside each other (longest common subsequence). */
function align(first, second) {
  const [n, m] = [first.length, second.length];
  const best = Array.from({ length: n + 1 }, () => new Array(m + 1).fill(0));
  for (let i = n - 1; i >= 0; i -= 1) for (let j = m - 1; j >= 0; j -= 1) best[i][j] = first[i].id === second[j].id ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const rows = [];
  let [i, j] = [0, 0];
  while (i < n || j < m) {
    if (i < n && j < m && first[i].id === second[j].id) rows.push([first[i++], second[j++]]);
    else if (j >= m || (i < n && best[i + 1][j] >= best[i][j + 1])) rows.push([first[i++], null]);
    else rows.push([null, second[j++]]);
  }
  return rows;
}

function asTable(data) {
  return { names: ["since", "until", "kind", "event", "path"], rows: (data?.items ?? []).map((each) => [each.since, each.until, each.kind, each.event, each.path.map(nodeName).join(" > ")]) };
}
