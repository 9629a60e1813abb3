/** The network as a map: layers and pods as paths show them, links coloured by a metric, now or at a past moment. */

import { h, fill, say } from "../lib/dom.js";
import { link, param, set } from "../lib/address.js";
import { get, path } from "../lib/api.js";
import { exports } from "../lib/export.js";
import { clock, ms, si } from "../lib/format.js";
import { keys } from "../lib/keys.js";
import { watch } from "../lib/live.js";
import { empty, noReports, panel, tabs, trouble } from "../lib/panel.js";
import { iso, moment } from "../lib/range.js";
import { heatScale } from "../charts/heat.js";
import { linkTable } from "./fabric/link_table.js";
import { METRICS, UNITS, hotText, titleOf, valueText } from "./fabric/metrics.js";
import { picture } from "./fabric/picture.js";
import { sidePanel } from "./fabric/side.js";
import { timeline } from "./fabric/timeline.js";

export const title = "Fabric";

export function show(place) {
  /** Newest answer, with its structure. */
  let data = null;
  let stop = () => {};
  let request = "";
  let arrived = null;
  let opened = "";

  const map = picture({ tip: tipOf, choose, open, moved: (text) => set({ zoom: text || null }), say: (text) => say(spoken, text) });
  const spoken = h("div", { class: "sr", "aria-live": "polite" });
  const note = h("div", null, h("div", { class: "map-wait" }, "Reading paths …"));
  const crumbs = h("nav", { class: "crumbs", "aria-label": "Level" });
  const choice = tabs("Colour by", METRICS, metricOf(), (metric) => set({ metric: metric === METRICS[0][0] ? null : metric }, true));
  const legend = h("div", { class: "map-legend" });
  const tools = h("div", { class: "map-tools" },
    tool("+", "Zoom in (+)", () => map.look.zoom(1.6)), tool("−", "Zoom out (−)", () => map.look.zoom(1 / 1.6)), tool("⤢", "Whole map (0)", () => map.look.fit()));
  map.element.append(tools);
  const links = linkTable();
  const box = panel("Map", { tools: [choice.element, exports("fabric", { table: links.export, json: () => data, png: map.png })] });
  fill(box.body, map.element, note, legend, spoken);
  box.element.querySelector("h2").replaceWith(crumbs);
  const side = sidePanel(() => choose(null));
  const time = timeline({
    choose: (at) => set({ at: at?.at ?? null, window: at ? Math.min(3600, Math.max(1, at.seconds)).toFixed(0) : null }),
    shown: () => arrived ?? Promise.resolve(),
  });
  const layout = h("div", { class: "fabric" }, box.element, side.element);
  map.element.hidden = true;
  fill(place, layout, time.element, links.element);
  const unkeys = keys({ 0: { text: "Fabric: show the whole map", run: () => map.look.fit() }, Escape: { text: "Fabric: close the panel, or show all pods", run: () => (param("selected") ? choose(null) : set({ pod: null }, true)) } });

  function metricOf() {
    return METRICS.some(([name]) => name === param("metric")) ? param("metric") : METRICS[0][0];
  }

  /** Request the view of the address: once, or again whenever its values change. */
  function ask() {
    const asked = { metric: metricOf(), level: param("level", "auto"), pod: param("pod") || null, at: atOf(), window: param("at") ? param("window", "10") : null };
    const wanted = JSON.stringify([asked, param("scope")]);
    if (wanted === request) return draw();
    const sameView = data && data.asked.level === asked.level && data.asked.pod === asked.pod;
    request = wanted;
    stop();
    time.update({ metric: asked.metric, limit: data?.limit ?? null, at: asked.at ? ms(asked.at) : null });
    choice.draw(asked.metric);
    const from = (known) => path("/fabric", { ...asked, known }, { scope: true });
    const known = sameView ? data.version : null;
    if (asked.at) {
      const control = new AbortController();
      stop = () => control.abort();
      map.element.classList.add("loading");
      arrived = get(from(known), { signal: control.signal }).then((found) => take(found, asked), (error) => error.name !== "AbortError" && refuse(error));
      return;
    }
    arrived = null;
    follow(known);

    function follow(version) {
      const end = watch(from(version), (found, status) => {
        if (status !== 200) return refuse({ message: found.error });
        take(found, asked);
        if (found.version !== version) {
          end();
          follow(found.version);
        }
      });
      stop = end;
    }
  }

  function atOf() {
    const at = moment(param("at") || null);
    return at === null ? null : iso(at);
  }

  function take(found, asked) {
    const structure = found.structure ?? data?.structure;
    if (!structure) return;
    data = { ...found, structure, asked };
    map.element.classList.remove("loading");
    map.element.hidden = false;
    note.hidden = true;
    if (!structure.nodes.length) return nothing();
    map.set({ structure, values: found.values, limit: found.limit, top: Math.max(1, found.highest ?? 0, found.limit ?? 0) });
    time.update({ metric: asked.metric, limit: found.limit, at: asked.at ? ms(asked.at) : null });
    draw();
  }

  function refuse(error) {
    map.element.hidden = true;
    note.hidden = false;
    fill(note, trouble(error, () => {
      request = "";
      ask();
    }));
  }

  function nothing() {
    map.element.hidden = true;
    note.hidden = false;
    fill(note, data.live
      ? noReports("No path has been seen yet.", "The map is learned from the hops of flows. Point a switch at this collector, or send simulated reports:")
      : empty("History has no value at that time.", "Move the slider to a moment with events, or go back to Live."));
  }

  /** Everything around the map. */
  function draw() {
    if (!data?.structure.nodes.length) return;
    const { asked, structure } = data;
    drawCrumbs();
    const hot = data.hot ? h("b", { class: "bad" }, hotText(data)) : data.highest === null ? h("span", null, "no values") : h("span", { class: "good" }, "✓ no hot port");
    fill(legend, heatScale(data.limit, Math.max(1, data.highest ?? 0), UNITS[asked.metric] ?? null), hot,
      h("span", null, `${si(data.switches)} switches, ${si(data.ports)} ports`), data.left_off ? h("span", { class: "warn" }, `${data.left_off} links with low values are not shown`) : null,
      data.switches_left_off ? h("span", { class: "warn" }, `${si(data.switches_left_off)} switches with few flows are not shown`) : null,
      h("span", { class: "grow" }), h("span", null, `${titleOf(asked.metric)}: highest in ${data.window_seconds} s${data.unit ? "" : ", in the switches' own units"} · ${data.live ? "live" : clock(data.time, 0)}`));
    const what = selected();
    map.choose(what?.mark ?? null);
    side.show(what && { ...what, metric: asked.metric, at: asked.at, window: data.window_seconds });
    layout.classList.toggle("with-side", Boolean(what));
    links.update(data);
    const zoom = param("zoom");
    const view = JSON.stringify([asked.level, asked.pod]);
    if (view !== opened || (zoom !== map.look.text() && !map.look.moves())) {
      if (opened && view !== opened && zoom === map.look.text()) map.zoomTo("");
      else map.zoomTo(zoom);
      opened = view;
    }
  }

  function drawCrumbs() {
    const { structure, asked } = data;
    const metric = asked.metric === METRICS[0][0] ? null : asked.metric;
    const to = (params) => link("/fabric", { metric, at: param("at") || null, window: param("window") || null, ...params });
    const item = (text, params, here) => h("a", { class: "button", href: to(params), "aria-current": here ? "page" : null }, text);
    if (!structure.pods.length) return void fill(crumbs, h("h2", null, "All switches"));
    fill(crumbs, item("Pods", { level: "pod" }, data.level === "pod"), item("Switches", { level: "switch" }, data.level === "switch" && !data.pod),
      data.pod && h("a", { class: "button", "aria-current": "page", href: to({ pod: data.pod }) }, data.pod),
      h("select", { "aria-label": "Pod", onchange: (event) => event.target.value && open({ pod: event.target.value }) },
        h("option", { value: "" }, "Pod …"), structure.pods.map((name) => h("option", { value: name, selected: name === data.pod }, name))));
  }

  /** What the address says is chosen: "7" (a switch), "7/3" (its port), "pod-3". */
  function selected() {
    const text = param("selected");
    if (!text || !data) return null;
    const { nodes } = data.structure;
    const { links: columns } = data.structure;
    const [id, port] = text.split("/");
    const at = nodes.findIndex((node) => (node.kind === "switch" ? String(node.id) === id || node.name === id : node.name === text));
    if (at >= 0 && nodes[at].kind !== "switch") {
      return { node: nodes[at], port: null, mark: { node: at }, value: data.values.nodes[at], hot: data.values.nodes_hot[at], cells: data.values.cells[boxOf(nodes, at)] };
    }
    if (at >= 0) {
      const number = port === undefined ? null : Number(port);
      const mine = number === null ? -1 : columns.port.findIndex((each, row) => columns.from[row] === at && each === number);
      return { node: nodes[at], port: number, mark: mine >= 0 ? { link: mine } : { node: at } };
    }
    for (const [box, node] of nodes.entries()) {
      const cell = node.cells ? node.cells.ids.findIndex((each, place) => String(each) === id || node.cells.names[place] === id) : -1;
      if (cell >= 0) return { node: { kind: "switch", id: node.cells.ids[cell], name: node.cells.names[cell] }, port: port === undefined ? null : Number(port), mark: { node: box, cell } };
    }
    return null;
  }

  function choose(what) {
    if (!what) return set({ selected: null });
    const { nodes, links: columns } = data.structure;
    if (what.link !== undefined) {
      const from = nodes[columns.from[what.link]];
      const port = columns.port[what.link];
      return set({ selected: from.kind === "switch" ? (port === null ? from.id : `${from.id}/${port}`) : from.name });
    }
    const node = nodes[what.node];
    set({ selected: what.cell === undefined ? (node.id ?? node.name) : node.cells.ids[what.cell] });
  }

  /** A pod opens to its switches. */
  function open(what) {
    const node = what.node === undefined ? null : data.structure.nodes[what.node];
    const pod = what.pod ?? (node?.kind === "pod" ? node.name : null);
    if (pod) set({ pod, level: null, selected: null, zoom: null }, true);
    else if (what.node !== undefined) choose(what);
  }

  function tipOf(what) {
    const { structure, values, asked } = data;
    const { nodes, links: columns } = structure;
    const text = (value, hot) => h("b", { class: hot ? "bad" : "" }, `${hot ? "▲ " : ""}${valueText(value, asked.metric)}`);
    if (what.link !== undefined) {
      const at = what.link;
      const back = columns.from.findIndex((each, row) => each === columns.to[at] && columns.to[row] === columns.from[at]);
      const line = (row) => row >= 0 && h("span", null, text(values.links[row], values.links_hot[row] > 0),
        ` ${nodes[columns.from[row]].name} → ${nodes[columns.to[row]].name}${columns.port[row] === null ? "" : ` · port ${columns.port[row]}`}`,
        columns.count[row] > 1 ? `, ${columns.count[row]} links` : "", values.links_flows[row] ? `, ${si(values.links_flows[row])} flows` : "");
      return [line(at), line(back)];
    }
    const node = nodes[what.node];
    if (what.cell !== undefined) {
      const value = values.cells[boxOf(nodes, what.node)][what.cell];
      return [h("b", null, node.cells.names[what.cell]), h("span", null, titleOf(asked.metric), " ", text(value, data.limit !== null && value > data.limit))];
    }
    const size = node.cells ? `${node.cells.ids.length} switches · ` : "";
    return [h("b", null, node.name), h("span", null, titleOf(asked.metric), " ", text(values.nodes[what.node], values.nodes_hot[what.node] > 0)),
      h("span", { class: "time" }, `${size}${values.nodes_hot[what.node]} hot${node.host_ports ? ` · ${node.host_ports} ports to hosts` : ""}`)];
  }

  ask();
  return {
    change: ask,
    end() {
      stop();
      unkeys();
      time.end();
      side.end();
      map.end();
    },
  };
}

/** Index of a node among those that have cells. */
function boxOf(nodes, at) {
  return at - nodes.findIndex((node) => node.kind !== "switch");
}

function tool(text, name, onclick) {
  return h("button", { class: "button", type: "button", title: name, "aria-label": name, onclick }, text);
}
