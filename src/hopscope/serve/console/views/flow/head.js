/** The head of a flow's page: its 5-tuple, its age, whether it is live, number of reports. */

import { h, fill, say } from "../../lib/dom.js";
import { link } from "../../lib/address.js";
import { ago, clock, duration, flowText, si, words } from "../../lib/format.js";
import { figures } from "../../lib/panel.js";

/** How long ago, as a figure. */
const since = (time) => (time ? { value: ago(time).replace(" ago", ""), unit: "ago" } : { value: "–" });

export function flowHead(id) {
  const name = h("h2", { class: "flow-name" }, `Flow ${id}`);
  const state = h("span", { class: "chip dot" }, "…");
  const alarms = h("span", { class: "row" });
  const links = h("span", { class: "row links" });
  const numbers = figures();
  const element = h("div", { class: "flow-head" }, h("div", { class: "view-head" }, name, state, alarms, h("span", { class: "grow" }), links), numbers.element);
  let live = null;
  let hops = null;
  let history = null;

  function draw() {
    const flow = live?.flow ?? hops?.flow ?? history?.flow;
    if (flow) say(name, flowText(flow));
    const left = !live && (hops || history);
    state.className = `chip dot ${live ? "good" : ""}`;
    say(state, live ? "Live" : left ? "Has left the flow table" : "…");
    state.title = left ? "The values are from history." : "";
    const flags = [live?.has_loop && "loop", live?.path_incomplete && "path incomplete", ...(live?.alarms ?? []).map((each) => `${words(each)} above its limit`)].filter(Boolean);
    if (alarms.dataset.text !== flags.join()) {
      alarms.dataset.text = flags.join();
      fill(alarms, flags.map((text) => h("span", { class: "chip bad dot" }, text)));
    }
    if (flow && !links.childElementCount) {
      fill(links, h("a", { href: link("/flows", { q: `${flow.dst} > ${flow.src}` }) }, "Reverse direction"),
        h("a", { href: link("/flows", { q: `${flow.src} > ${flow.dst}` }) }, "Same endpoints"), h("a", { href: link("/events", { flow: id }) }, "Events"));
    }
    const items = history?.items ?? [];
    const changes = items.filter((each) => each.kind === "path_change").length;
    const first = live?.first_seen ?? items[0]?.since;
    const last = live?.last_seen ?? history?.last_seen ?? hops?.last_seen;
    const total = hops?.latency;
    numbers.update([
      { key: "since", title: "First seen", ...since(first), note: first ? clock(first) : "" },
      { key: "last", title: "Last seen", ...since(last), note: last ? clock(last) : "" },
      { key: "packets", title: "Reports", value: live ? si(live.packets) : "–", note: live ? "since first seen" : "live flows only" },
      { key: "latency", title: live ? "Latency now" : "Latency, last stored", value: duration(total?.latest_ns ?? live?.latency_ns ?? total?.stored_ns ?? NaN), note: total?.change_limit_ns ? `T = ±${duration(total.change_limit_ns)}` : "" },
      { key: "mean", title: "Mean latency", value: live?.latency_mean_ns ? duration(live.latency_mean_ns) : "–", note: "of all packets" },
      { key: "hops", title: "Hops", value: String(live?.hop_count ?? hops?.hops.length ?? "–") },
      { key: "changes", title: "Path changes", value: history ? String(changes) : "–", note: history ? "in history" : "", mood: changes ? "warn" : "" },
    ]);
  }

  return {
    element,
    live(data, status) {
      live = data;
      if (status === 200 || status === 404) draw();
    },
    known(data) {
      hops = data;
      draw();
    },
    paths(data) {
      history = data;
      draw();
    },
  };
}
