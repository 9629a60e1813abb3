/** One egress port: values over time with one crosshair, quantiles, the histogram, queues, flows, events, limits. */

import { h, fill } from "../lib/dom.js";
import { here, link, param, set } from "../lib/address.js";
import { get, path } from "../lib/api.js";
import { ago, amount, ms, nodeName, portName, words } from "../lib/format.js";
import { empty, tabs, trouble } from "../lib/panel.js";
import { keys } from "../lib/keys.js";
import { burstPanel } from "./ports/bursts.js";
import { repeat } from "../lib/range_query.js";
import { distributionPanel } from "./port/distribution.js";
import { limitPanel } from "./port/limits.js";
import { eventPanel, flowPanel, queuePanel } from "./port/lists.js";
import { seriesPanel } from "./port/series.js";

export const title = (address) => `${address.parts[1]} · ${/^\d+$/.test(address.parts[2]) ? `port ${address.parts[2]}` : address.parts[2]}`;

export async function show(place) {
  const { parts } = here();
  const [found, labels] = await Promise.all([find(parts[1], parts[2]), get(path("/labels", { limit: 1 })).catch(() => ({ total: 0 }))]);
  found.labels = labels.total > 0;
  if (!found.port) {
    fill(place, empty(`${parts[1]} has reported no port ${parts[2]}.`, "A port appears once a report contains it. The Ports page lists all ports with values."),
      h("p", null, h("a", { class: "button", href: link("/ports") }, "Ports and queues")));
    return { end() {} };
  }
  const { node, port } = found;
  const queues = h("div", { class: "choices" });
  const facts = h("span", { class: "soft" });
  const series = seriesPanel(node, port, found.labels);
  const distribution = distributionPanel(node, port);
  const bursts = burstPanel({ fixed: { node: node.id, port: port.id }, title: "Bursts here" });
  const queueTable = queuePanel();
  const flows = flowPanel(node, port);
  const events = eventPanel(node, port);
  const limits = limitPanel(node);
  const wide = (element, classes) => Object.assign(element, { className: `${element.className} ${classes}` });
  fill(place, h("div", { class: "view-head" }, facts, h("span", { class: "grow" }), queues,
    h("a", { class: "button", href: link("/fabric", { selected: String(node.id) }) }, "On the map"), h("a", { class: "button", href: link("/events", { node: node.name ?? node.id, port: port.id }) }, "Events")),
  h("div", { class: "grid" }, wide(series.element, "w7"), h("div", { class: "w5 column" }, queueTable.element, limits.element), distribution.elements.map((each) => wide(each, "w6")),
    bursts.element, wide(flows.element, "w7"), wide(events.element, "w5")));

  let known = [];
  let end = () => {};
  const queue = () => (known.some((each) => String(each.id) === param("queue")) ? Number(param("queue")) : known.length === 1 ? known[0].id : null);
  const begin = () => {
    end();
    drawQueues();
    const chosen = queue();
    const ends = [series, distribution, bursts, flows, events].map((each) => each.begin({ queue: chosen, metric: null }));
    end = () => ends.forEach((each) => each());
  };
  const drawQueues = () => {
    const choices = [["", "all queues"], ...known.map((each) => [String(each.id), `queue ${each.id}`])];
    fill(queues, known.length > 1 ? tabs("Queue", choices, queue() === null ? "" : String(queue()), (value) => set({ queue: value || null })).element : "");
  };
  const draw = (state) => {
    const mine = state.queue_states.filter((each) => each.kind === "queue" && each.port?.id === port.id).sort((a, b) => a.id - b.id);
    const here = state.port_states.find((each) => each.port.id === port.id);
    if (here) series.seen(ms(here.last_seen));
    fill(facts, `${nodeName(node)} · ${portName(port)}`, here ? ` · link now ${amount(here.link_utilization, null)} · ${amount(here.drops, null)} drops · last report ${ago(here.last_seen)}` : " · no recent report",
      here?.alarms.map((each) => [" ", h("span", { class: "chip bad dot" }, words(each))]));
    queueTable.update(mine);
    const before = known.map((each) => each.id).join();
    known = mine;
    if (before !== mine.map((each) => each.id).join()) begin();
  };
  if (found.state) draw(found.state);
  if (!known.length) begin();
  const unfollow = repeat(path(`/switches/${encodeURIComponent(String(node.id))}`, {}, { scope: true }), 5, (data, error) => {
    if (!error) draw(data);
    else if (error.status !== 404) fill(facts, trouble(error));
  });
  const unkey = keys({ u: { text: "All ports", run: () => document.querySelector(".rail a[href^='/ports']")?.click() } });
  return { end: () => [end, unfollow, unkey, limits.end].forEach((each) => each()), change: begin };
}

/** The port with this name, otherwise the port with this number. */
export function portOf(ports, text) {
  return ports.find((each) => each.name === text) ?? ports.find((each) => String(each.id) === text);
}

/** A switch and its port, by numbers or names; `port` is null if the switch has none of that name. */
async function find(nodeText, portText) {
  let state = null;
  try {
    state = await get(path(`/switches/${encodeURIComponent(nodeText)}`, {}, { scope: true }));
  } catch (error) {
    if (error.status !== 404) throw error;
  }
  const ports = [...(state?.port_states ?? []), ...(state?.queue_states ?? [])].map((each) => each.port).filter(Boolean);
  const port = portOf(ports, portText);
  if (port) return { node: state.node, port, state };
  if (!/^\d{1,5}$/.test(portText)) return { node: null, port: null, state };
  const node = state?.node ?? { id: nodeText, name: /^\d+$/.test(nodeText) ? null : nodeText };
  return { node, port: { id: Number(portText), name: null }, state };
}
