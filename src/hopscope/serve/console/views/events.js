/** Events: history and live events in one list, open alarms, and silences. */

import { h, fill, say } from "../lib/dom.js";
import { here, set } from "../lib/address.js";
import { get, path } from "../lib/api.js";
import { exports } from "../lib/export.js";
import { sentence } from "../lib/format.js";
import { keys } from "../lib/keys.js";
import { empty, panel, tabs, toast, trouble } from "../lib/panel.js";
import { alarmPart } from "./events/alarms.js";
import { feed, hasText, rowsOf } from "./events/feed.js";
import { filters } from "./events/filters.js";
import { acknowledge, silence } from "./events/forms.js";
import { histogram } from "./events/histogram.js";
import { eventList } from "./events/list.js";
import { histogramOf, isLive } from "./events/requests.js";
import { silencePart } from "./events/silences.js";

export const title = "Events";
const CHART_MS = 5000;
const PARTS = [["", "Events"], ["alarms", "Open alarms"], ["silences", "Silences"]];
/** Kinds whose bars are drawn as warnings. */
const BAD = new Set(["raised", "threshold", "loop", "drop", "silent", "gap", "queue_report"]);

export function show(place, address) {
  const part = tabs("Part", PARTS, "", (name) => set({ part: name }, true));
  const alarms = alarmPart();
  const silences = silencePart();
  const events = eventPart();
  const parts = { alarms, silences, "": events };
  fill(place, h("div", { class: "view-head" }, part.element), alarms.element, silences.element, events.element);

  function change({ query }) {
    const name = parts[query.get("part") ?? ""] ? query.get("part") ?? "" : "";
    part.draw(name);
    for (const [each, view] of Object.entries(parts)) {
      view.element.hidden = each !== name;
      if (each === name) view.ask(query);
      else view.end();
    }
  }
  change(address);
  return { change, end: () => Object.values(parts).forEach((each) => each.end()) };
}

function eventPart() {
  const above = filters();
  const chart = histogram();
  const source = feed(draw);
  const list = eventList(act);
  const state = h("div");
  const more = h("button", { class: "button", type: "button", onclick: () => source.older(here().query) }, "Older events");
  const pause = h("button", { class: "button", type: "button", "aria-pressed": "false", onclick: () => source.pause(!source.state.paused) }, "Pause");
  const silenced = h("button", { class: "button", type: "button", hidden: true, onclick: () => set({ silenced: here().query.get("silenced") ? null : "show" }) });
  const time = panel("Events over time", { note: "drag to choose a time range", tools: exports("events-over-time", { table: chart.export, png: chart.png }) });
  const box = panel("Events", { tools: [above.group, silenced, pause, exports("events", { table: exported, json: () => shown().map((each) => each.event) })] });
  fill(time.body, chart.element);
  fill(box.body, state, list.element, h("div", { class: "row more-row" }, more));
  const element = h("div", { class: "event-part" }, above.element, time.element, box.element);
  const seen = new IntersectionObserver(([entry]) => entry.isIntersecting && source.more() && source.older(here().query), { rootMargin: "300px" });
  seen.observe(more);
  let unkey = null;
  let timer = 0;
  let asked = "";

  const kept = () => {
    const { query } = here();
    const text = query.get("q") ?? "";
    return source.items().filter((each) => (!each.silence || query.get("silenced")) && (!text || hasText(each, text)));
  };
  function shown() {
    return rowsOf(kept(), here().query.get("group") ?? "");
  }

  function draw() {
    const rows = shown();
    const { query } = here();
    const hidden = source.items().filter((each) => each.silence).length;
    list.update(rows);
    silenced.hidden = !hidden;
    say(silenced, query.get("silenced") ? `Hide silenced (${hidden})` : `Show silenced (${hidden})`);
    pause.hidden = !isLive();
    pause.setAttribute("aria-pressed", String(source.state.paused));
    say(pause, source.state.paused ? (source.state.held ? `Resume (${source.state.held}${source.state.held >= 100 ? "+" : ""} new)` : "Resume") : "Pause");
    more.hidden = !source.more();
    box.note(noteOf(rows.length));
    state.hidden = !source.state.error && (rows.length > 0 || source.state.loading);
    if (source.state.error) fill(state, trouble(source.state.error));
    else if (!state.hidden) fill(state, nothing(query));
  }

  function noteOf(rows) {
    if (source.state.loading && !rows) return "reading history …";
    const live = isLive() ? (source.state.paused ? "paused" : "live") : "of the time range";
    const all = source.more() ? `the newest ${source.items().length.toLocaleString("en")}` : `all ${source.items().length.toLocaleString("en")}`;
    return `${live} · ${all}${rows !== source.items().length ? `, ${rows.toLocaleString("en")} rows` : ""}${source.state.missed ? " · events arrive too fast for this list: pause it" : ""}`;
  }

  async function drawChart() {
    const request = histogramOf(here().query);
    try {
      const data = await get(request);
      if (request === histogramOf(here().query)) chart.update(data, (kind) => BAD.has(kind));
    } catch (error) {
      if (error.status !== 400) time.note(error.message);
    }
  }

  async function act(event, what) {
    if (what === "silence") return void silence(event);
    try {
      const found = await get(path(`/events/${event.id}`, { member: event.member }, { scope: true }));
      if (found.alarm) acknowledge(found.alarm);
      else toast("No alarm is open at this place.");
    } catch (error) {
      toast(sentence(error.message), "bad");
    }
  }

  function exported() {
    const names = ["time", "kind", "metric", "value", "previous", "unit", "node", "port", "queue", "flow", "source", "count", "first", "id"];
    return { names, rows: shown().map(({ event, count, first }) => [event.time, event.kind, event.metric, event.value, event.previous, event.unit, event.node?.name ?? event.node?.id,
      event.port?.name ?? event.port?.id, event.queue, event.flow && `${event.flow.src},${event.flow.dst},${event.flow.proto},${event.flow.sport},${event.flow.dport}`, event.source?.address, count, first, event.id]) };
  }

  return {
    element,
    ask(query) {
      unkey ??= keys({
        j: { text: "Next event", run: () => list.move(1) },
        k: { text: "Previous event", run: () => list.move(-1) },
        a: { text: "Acknowledge the alarm at its place", run: () => list.act("acknowledge") },
        s: { text: "Silence its place", run: () => list.act("silence") },
        p: { text: "Pause, resume", run: () => source.pause(!source.state.paused) },
      });
      if (!timer) timer = setInterval(() => isLive() && !document.hidden && !source.state.paused && drawChart(), CHART_MS);
      above.update(query);
      source.ask(query);
      if (histogramOf(query) !== asked) drawChart();
      asked = histogramOf(query);
      draw();
    },
    end() {
      clearInterval(timer);
      timer = 0;
      asked = "";
      unkey?.();
      unkey = null;
      source.end();
    },
  };
}

function nothing(query) {
  if (!query.get("all") && !query.getAll("kind").length && ![...query.keys()].some((name) => ["metric", "node", "port", "flow", "prefix", "q"].includes(name))) {
    return empty("Nothing notable has happened.", "Routine changes are under All. The Limits page sets what raises an alarm.");
  }
  return empty("No event matches.", "Remove a filter, or choose another time range above.");
}
