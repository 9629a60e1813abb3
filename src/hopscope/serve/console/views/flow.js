/** One flow: its hops as a waterfall now or at a past moment, latency and path over time, compared with another. */

import { h, fill } from "../lib/dom.js";
import { set } from "../lib/address.js";
import { get, path } from "../lib/api.js";
import { watch } from "../lib/live.js";
import { empty, trouble } from "../lib/panel.js";
import { keys } from "../lib/keys.js";
import { comparePanel } from "./flow/compare.js";
import { eventPanel } from "./flow/events.js";
import { flowHead } from "./flow/head.js";
import { hopPanel } from "./flow/hops.js";
import { pathPanel } from "./flow/paths.js";
import { seriesPanel } from "./flow/series.js";

export const title = "Flow";
const SLOW_MS = 5000;
/** Kinds of events that are listed: all but those that only repeat a value. */
const NOTABLE = "new_key,change,threshold,raised,cleared,path_change,loop,drop,queue_report,flow_record,moved";

function unknownFlow() {
  return empty("No live or past flow has this id.", "Each collector assigns its own flow ids. Search for the flow by its addresses on the Flows page.");
}

export function show(place, address) {
  const id = address.parts[1].toLowerCase();
  if (!/^[0-9a-f]{16}$/.test(id)) return void fill(place, unknownFlow());
  const route = (rest, params = {}) => path(`/flows/${encodeURIComponent(id)}${rest}`, params, { scope: true });
  const head = flowHead(id);
  const hops = hopPanel("Latency by hop");
  const other = hopPanel("Compared with");
  const compare = comparePanel(id);
  const series = seriesPanel();
  const paths = pathPanel(id);
  const events = eventPanel(id);
  const both = h("div", { class: "grid" }, hops.element, other.element);
  const problem = h("div", { role: "alert", hidden: true });
  const rest = [compare.element, both, series.element, paths.element, events.element];
  fill(place, head.element, problem, rest);

  let ends = [];
  let asked = "";
  const stopLive = watch(route(""), (data, status) => head.live(status === 200 ? data : null, status));
  const release = keys({ n: { text: "Show this flow now", run: () => set({ at: null }) }, c: { text: "Compare this flow", run: () => compare.focus() } });

  function change({ query }) {
    const [at, withId, withAt] = ["at", "with", "with_at"].map((name) => query.get(name));
    const comparing = Boolean(withId || withAt);
    for (const each of [hops.element, other.element]) each.classList.toggle("w6", comparing);
    other.element.hidden = !comparing;
    compare.change(query);
    paths.choose(query.get("path"));
    const next = JSON.stringify([at, withId, withAt, query.get("from"), query.get("to")]);
    if (next === asked) return;
    asked = next;
    for (const end of ends) end();
    const left = route("/hops", { at, since: query.get("from") });
    const right = comparing ? path(`/flows/${encodeURIComponent(withId ?? id)}/hops`, { at: withAt === "now" ? null : withAt, since: query.get("from") }, { scope: true }) : null;
    const answers = { left: null, right: null };
    const draw = () => {
      const [a, b] = [answers.left, answers.right];
      const top = comparing ? Math.max(a ? hops.reach(a) : 1, b ? other.reach(b) : 1) : null;
      if (a) hops.update(a, { at, against: b, top });
      if (b) other.update(b, { at: withAt, against: a, top, flow: withId });
      compare.update(a, b);
    };
    const take = (side, box) => (data, status) => {
      answers[side] = status === 200 ? data : null;
      if (status !== 200) box.fail(data?.error ?? "This could not be read.");
      if (side === "left") arrived(data, status);
      draw();
    };
    ends = [follow(left, at, take("left", hops))];
    if (right) ends.push(follow(right, withAt, take("right", other)));
    ends.push(repeat(route("/series", { since: query.get("from"), until: query.get("to") === "now" ? null : query.get("to") }), series.update));
  }

  function arrived(data, status) {
    head.known(status === 200 ? data : null);
    problem.hidden = status === 200 || status === 404;
    if (!problem.hidden) fill(problem, trouble({ message: data?.error ?? "" }));
  }

  const stopPaths = repeat(route("/paths"), (data, status) => {
    head.paths(status === 200 ? data : null);
    const unknown = status === 404;
    for (const each of rest) each.classList.toggle("gone", unknown);
    if (unknown) {
      problem.hidden = false;
      fill(problem, unknownFlow());
    }
    if (status !== 200) return;
    paths.update(data);
    series.paths(data);
  });
  const stopEvents = repeat(path("/events", { flow: id, kind: NOTABLE, limit: 50 }, { scope: true }), events.update);
  const stopShares = repeat(route("/bottleneck"), (data, status) => status === 200 && hops.shares(data));
  change(address);
  return {
    change,
    end() {
      for (const end of [...ends, stopLive, stopPaths, stopEvents, stopShares, release, series.end]) end();
    },
  };
}

/** Follow live values; a past moment is read only once. */
function follow(request, at, on) {
  if (!at || at === "now") return watch(request, on);
  let over = false;
  get(request).then((data) => over || on(data, 200), (error) => over || on({ error: error.message }, error.status));
  return () => (over = true);
}

/** Ask now and then every few seconds while the tab is visible; returns a function that stops it. */
function repeat(request, on) {
  let over = false;
  let timer = 0;
  const ask = async () => {
    if (!document.hidden) {
      try {
        const data = await get(request);
        if (!over) on(data, 200);
      } catch (error) {
        if (!over) on({ error: error.message }, error.status);
      }
    }
    if (!over) timer = setTimeout(ask, SLOW_MS);
  };
  ask();
  return () => {
    over = true;
    clearTimeout(timer);
  };
}
