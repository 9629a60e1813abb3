/** Live values: one WebSocket for the tab; views watch GETs of the API, and are given their answers as they change. */

import { get, hear, path, PREFIX } from "./api.js";

/** Close code: this address has too many live views. */
const TOO_MANY = 4429;
const SILENT_MS = 15_000;
const HIDDEN_MS = 60_000;
/** Code of a connection that the server ends with the session. */
const ENDED = 1008;
/** @type {Map<string, Set<(data: any, status: number) => void>>} */
const watched = new Map();
/** @type {Map<string, {data: any, status: number}>} */
const newest = new Map();
const state = new EventTarget();

let socket = null;
let lastMs = 0;
let pause = 500;
let retry = 0;
let hiddenSince = 0;
let stopped = false;
/** "connecting", "live", "paused" or "lost", and when the last message came. */
export const connection = { state: "connecting", sinceMs: Date.now(), tooMany: false };

/**
 * Call `on(data, status)` with the answer to a GET now and whenever it changes; `status` is 200, or `data` is
 * `{error}`. Returns a function that stops it.
 * @param {string} path from api.path
 * @param {(data: any, status: number) => void} on
 */
export function watch(path, on) {
  const listeners = watched.get(path) ?? new Set();
  watched.set(path, listeners.add(on));
  const known = newest.get(path);
  if (known) on(known.data, known.status);
  tell();
  return () => {
    listeners.delete(on);
    if (!listeners.size) {
      watched.delete(path);
      keep(path, null);
      hear(path, null);
      tell();
    }
  };
}

/** Whether the server failed to compute a watched value. */
export function failed() {
  return [...newest.values()].some((answer) => answer.status === 500);
}

/** Watched answers that have not come yet. */
export function unanswered() {
  return [...watched.keys()].filter((each) => !newest.has(each));
}

/** Stop or go on: while stopped, views keep what they show. */
export function setPaused(on) {
  stopped = on;
  turn(on ? "paused" : "connecting");
  if (!on) for (const [path, { data, status }] of newest) give(path, data, status);
  if (!on && socket?.readyState === WebSocket.OPEN) turn("live");
}

/** Call `on` when the state of the connection changes, or that of `failed`; returns a function that stops it. */
export function followConnection(on) {
  state.addEventListener("change", on);
  return () => state.removeEventListener("change", on);
}

function turn(to) {
  if (stopped) to = "paused";
  if (connection.state === to) return;
  connection.state = to;
  connection.sinceMs = Date.now();
  state.dispatchEvent(new Event("change"));
}

function open() {
  clearTimeout(retry);
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${PREFIX}/live`);
  const mine = socket;
  mine.onopen = () => {
    pause = 500;
    lastMs = Date.now();
    turn("live");
    tell();
  };
  mine.onmessage = (event) => {
    lastMs = Date.now();
    turn("live");
    const message = JSON.parse(event.data);
    if (!message.path || !watched.has(message.path)) return;
    keep(message.path, message);
    if (message.data) hear(message.path, message.data);
    if (!stopped) give(message.path, message.data, message.status);
  };
  let opened = false;
  mine.addEventListener("open", () => (opened = true));
  mine.onclose = ({ code }) => {
    if (socket !== mine) return;
    socket = null;
    if (code === ENDED) dispatchEvent(new CustomEvent("hopscope-login"));
    if (hiddenSince) return;
    connection.tooMany = code === TOO_MANY;
    if (!opened) get(path("/summary")).catch(() => {}); // a handshake has no reason: 401 here leads to the login
    turn("lost");
    retry = setTimeout(open, pause);
    pause = Math.min(10_000, pause * 2);
  };
}

/** Keep the newest answer of a path; null: none. */
function keep(path, answer) {
  const before = failed();
  if (answer) newest.set(path, answer);
  else newest.delete(path);
  if (failed() !== before) state.dispatchEvent(new Event("change"));
}

function give(path, data, status) {
  for (const on of [...(watched.get(path) ?? [])]) on(data, status);
}

let queued = false;
function tell() {
  if (queued) return;
  queued = true;
  queueMicrotask(() => {
    queued = false;
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ watch: [...watched.keys()] }));
    else if (!socket && !hiddenSince) open();
  });
}

/** A hidden tab is disconnected after a minute, so that it costs the server nothing. */
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    setTimeout(() => {
      if (!document.hidden) return;
      hiddenSince = Date.now();
      socket?.close();
    }, HIDDEN_MS);
  } else if (hiddenSince) {
    hiddenSince = 0;
    if (!socket) open();
  }
});

setInterval(() => {
  if (socket?.readyState === WebSocket.OPEN && Date.now() - lastMs > SILENT_MS) {
    turn("lost");
    socket.close();
  }
}, 2000);
