/** The slider over history: events over time, and the moment that the map shows. */

import { h, say } from "../../lib/dom.js";
import { clock, ms } from "../../lib/format.js";
import { iso, range } from "../../lib/range.js";
import { colour, followTheme, heat } from "../../lib/theme.js";
import { get, path } from "../../lib/api.js";
import { valueText } from "./metrics.js";

const BUCKETS = 120;
const PLAY_MS = 900;
const REFRESH_MS = 10_000;

/**
 * @param {object} on
 * @param {(at: {at: string, seconds: number} | null) => void} on.choose the moment, and how far back its peaks reach;
 *   null: live
 * @param {() => Promise<any>} on.shown resolves when the map shows what was chosen last
 */
export function timeline(on) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const input = h("input", { type: "range", min: "0", max: String(BUCKETS), value: String(BUCKETS), "aria-label": "Moment of the map" });
  const play = h("button", { class: "button", type: "button", "aria-label": "Play", title: "Play", onclick: () => (playing ? stop() : start()) }, "▶");
  const live = h("button", { class: "button", type: "button", "aria-pressed": "true", onclick: () => choose(BUCKETS) }, "Live");
  const now = h("div", { class: "now" });
  const element = h("section", { class: "panel timeline", "aria-label": "Time" },
    h("span", { class: "row" }, play, live), h("div", { class: "track" }, canvas, input), now);
  let span = range(3600);
  let found = null;
  let metric = "hop_latency";
  let limit = null;
  let at = null;
  let playing = 0;
  let timer = 0;
  let asked = null;

  const seconds = () => (span.to - span.from) / BUCKETS / 1000;
  const timeOf = (place) => span.from + ((span.to - span.from) * place) / BUCKETS;
  input.addEventListener("input", () => {
    stop();
    choose(Number(input.value));
  });

  function choose(place) {
    at = place >= BUCKETS && span.live ? null : timeOf(Math.max(1, place));
    on.choose(at === null ? null : { at: iso(at), seconds: seconds() });
    draw();
  }

  function start() {
    if (at === null) choose(1);
    playing = setTimeout(step, PLAY_MS);
    say(play, "❚❚");
    play.setAttribute("aria-label", "Pause");
  }

  async function step() {
    await on.shown();
    if (!playing) return;
    const place = Math.round(((at - span.from) / (span.to - span.from)) * BUCKETS) + 1;
    if (place > BUCKETS) return stop();
    choose(place);
    playing = setTimeout(step, PLAY_MS);
  }

  function stop() {
    clearTimeout(playing);
    playing = 0;
    say(play, "▶");
    play.setAttribute("aria-label", "Play");
  }

  async function ask() {
    clearTimeout(timer);
    asked?.abort();
    asked = new AbortController();
    if (!playing) span = range(3600);
    try {
      found = await get(path("/fabric/timeline", { since: iso(span.from), until: iso(span.to), buckets: BUCKETS, metric }, { scope: true }), { signal: asked.signal });
    } catch (error) {
      if (error.name === "AbortError") return;
      found = { items: [], error: error.message };
    }
    draw();
    if (span.live) timer = setTimeout(ask, REFRESH_MS);
  }

  function draw() {
    live.setAttribute("aria-pressed", String(at === null));
    const place = at === null ? BUCKETS : Math.round(((at - span.from) / (span.to - span.from)) * BUCKETS);
    input.value = String(place);
    const bucket = found?.items.find((each) => Math.floor(((ms(each.time) - span.from) / (span.to - span.from)) * BUCKETS + 0.01) === place - 1);
    const text = at === null ? "Live" : clock(at, 0);
    const note = !found ? "reading history …" : found.error ?? (at === null ? `${count(found).toLocaleString("en")} notable events in ${span.chosen ? "this range" : "the last hour"}` : bucket ? `${bucket.events} events · highest ${valueText(bucket.highest, metric)}` : "no event");
    now.replaceChildren(h("b", null, text), note);
    input.setAttribute("aria-valuetext", `${text}, ${note}`);
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
    const [bottom, top] = [height - 15, 4];
    context.fillStyle = colour("--line-soft");
    context.fillRect(0, bottom, width, 1);
    const most = Math.max(1, ...(found?.items ?? []).map((each) => each.events));
    const highest = Math.max(1, ...(found?.items ?? []).map((each) => each.highest ?? 0));
    for (const each of found?.items ?? []) {
      if (!each.events && !each.highest) continue;
      const x = ((ms(each.time) - span.from) / (span.to - span.from)) * width;
      const high = each.events ? Math.max(3, Math.sqrt(each.events / most) * (bottom - top)) : 2;
      context.fillStyle = each.highest ? heat(each.highest, limit, highest) : colour("--s6");
      context.fillRect(x, bottom - high, Math.max(2, width / BUCKETS - 1), high);
    }
    context.fillStyle = colour("--faint");
    context.textBaseline = "bottom";
    context.fillText(clock(span.from, 0), 0, height);
    const middle = clock((span.from + span.to) / 2, 0);
    context.fillText(middle, width / 2 - context.measureText(middle).width / 2, height);
    const end = span.live ? "now" : clock(span.to, 0);
    context.fillText(end, width - context.measureText(end).width, height);
    const x = Math.min(width - 2, Math.max(2, (place / BUCKETS) * width));
    context.fillStyle = colour("--accent");
    context.fillRect(x - 1.5, 0, 3, bottom + 2);
    context.beginPath();
    context.arc(x, bottom, 5, 0, 7);
    context.fill();
  }

  new ResizeObserver(draw).observe(canvas);
  const unfollow = followTheme(draw);
  return {
    element, ask,
    /** What is shown: the moment of the address, the metric and its limit. */
    update(given) {
      const other = given.metric !== metric;
      ({ metric, limit } = given);
      at = given.at;
      if (other || !found) ask();
      else draw();
    },
    /** How far back the peaks of a moment reach, seconds. */
    seconds,
    end() {
      stop();
      clearTimeout(timer);
      asked?.abort();
      unfollow();
    },
  };
}

function count(found) {
  return (found?.items ?? []).reduce((sum, each) => sum + each.events, 0);
}
