/** Rows of events: loaded from history page by page, new ones in front as they arrive, similar ones grouped. */

import { get } from "../../lib/api.js";
import { watch } from "../../lib/live.js";
import { ms, nodeName, portName } from "../../lib/format.js";
import { whatOf } from "../../lib/event_text.js";
import { isLive, pageOf } from "./requests.js";

/** Rows kept in memory; older ones are loaded again when needed. */
const MOST = 5000;

/**
 * The events that the address asks for. `draw()` is called when they change.
 * @param {() => void} draw
 */
export function feed(draw) {
  let items = [];
  let next = null;
  let stop = () => {};
  let turn = 0;
  let asked = "";
  let waiting = null;
  const state = { paused: false, loading: true, error: null, missed: false, held: 0 };

  function take(page) {
    state.loading = false;
    state.error = null;
    const known = new Set(items.map(keyOf));
    const fresh = page.items.filter((each) => !known.has(keyOf(each)));
    if (state.paused && items.length) {
      waiting = page;
      state.held = fresh.length;
      return void draw();
    }
    const joins = !items.length || fresh.length < page.items.length;
    state.missed = !joins;
    if (!joins || !items.length) {
      items = page.items;
      next = page.next;
    } else if (fresh.length) items = [...fresh, ...items].sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : 0)).slice(0, MOST);
    draw();
  }

  return {
    state,
    items: () => items,
    more: () => next !== null,
    /** Load the events of the present address. */
    async ask(query) {
      const request = pageOf(query);
      if (request === asked) return;
      asked = request;
      stop();
      stop = () => {};
      [items, next, waiting] = [[], null, null];
      Object.assign(state, { loading: true, error: null, missed: false, held: 0, paused: false });
      const mine = ++turn;
      draw();
      if (isLive()) {
        stop = watch(request, (data, status) => {
          if (mine !== turn) return;
          if (status === 200) return take(data);
          Object.assign(state, { loading: false, error: new Error(data?.error ?? "the events could not be read") });
          draw();
        });
        return;
      }
      try {
        const page = await get(request);
        if (mine === turn) take(page);
      } catch (error) {
        if (mine === turn) Object.assign(state, { loading: false, error });
        draw();
      }
    },
    /** Load the next older page. */
    async older(query) {
      if (next === null || state.loading) return;
      const mine = turn;
      state.loading = true;
      try {
        const page = await get(pageOf(query, next));
        if (mine !== turn) return;
        const known = new Set(items.map(keyOf));
        items = [...items, ...page.items.filter((each) => !known.has(keyOf(each)))];
        next = items.length < MOST ? page.next : null;
      } catch (error) {
        state.error = error;
      }
      state.loading = false;
      draw();
    },
    pause(on) {
      state.paused = on;
      state.held = 0;
      const page = waiting;
      waiting = null;
      if (!on && page) take(page);
      else draw();
    },
    end() {
      asked = "";
      turn += 1;
      stop();
    },
  };
}

/** A key that is unique among the events of all members. */
function keyOf(event) {
  return `${event.member ?? ""}/${event.id}`;
}

/** Whether the text of an event's row contains a search text. */
export function hasText(event, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = `${event.kind} ${event.metric} ${whatOf(event)} ${event.id} ${event.member ?? ""}`.toLowerCase();
  return words.every((word) => all.includes(word));
}

/** Events as rows {key, event, count, first, last}; `by`: "" one by one, "place" or "kind". The newest first. */
export function rowsOf(events, by) {
  if (!by) return events.map((event) => ({ key: keyOf(event), event, count: 1, first: event.time, last: event.time }));
  const groups = new Map();
  for (const event of events) {
    const place = by === "kind" ? "" : event.source ? event.source.address : event.node ? `${nodeName(event.node)}/${portName(event.port)}/${event.queue}` : event.flow?.id;
    const key = `${event.kind}/${event.metric}/${place}`;
    const row = groups.get(key);
    if (!row) groups.set(key, { key, event, count: 1, first: event.time, last: event.time });
    else {
      row.count += 1;
      if (ms(event.time) < ms(row.first)) row.first = event.time;
    }
  }
  return [...groups.values()];
}
