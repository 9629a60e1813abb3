/** Requests to the HTTP API. */

import { param } from "./address.js";

export const PREFIX = "/api/v0";

/** An error from the server: `message` is its line, `body` the whole answer. */
class ApiError extends Error {
  constructor(status, message, body = null) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/**
 * Path of a GET with its query. `scope`: the route supports the whole cluster; it covers the cluster if the address has `scope=cluster`.
 * @param {string} route below /api/v0, as "/flows"
 * @param {Record<string, any>} [params] null, undefined and "" are left out; arrays are repeated
 * @param {{scope?: boolean}} [options]
 */
export function path(route, params = {}, { scope = false } = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
  }
  if (scope && param("scope") === "cluster") query.set("scope", "cluster");
  const search = query.toString();
  return PREFIX + route + (search ? `?${search}` : "");
}

/** The answer to a GET (its path from `path`). Throws ApiError. */
export async function get(address, { signal } = {}) {
  return answerOf(address, await reach(address, { signal, headers: { accept: "application/json" } }));
}

/** Send a change, or a query by POST. Throws ApiError. */
export async function send(method, address, body, { signal, raw = false } = {}) {
  const attempt = () => {
    const headers = { accept: "application/json" };
    if (csrf) headers["x-hopscope-csrf"] = csrf;
    if (body !== undefined) headers["content-type"] = "application/json";
    return reach(address, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  };
  const before = csrf;
  let answer = await attempt();
  if (answer.status === 403) {
    await readAgain().catch(() => {});
    if (csrf !== before) answer = await attempt();
  }
  if (!raw || !answer.ok) return answerOf(address, answer);
  const cluster = answer.headers.get("hopscope-cluster");
  if (cluster) hear(address.split("?")[0], { cluster: JSON.parse(cluster) });
  return answer;
}

const answers = new Set();

/** Call `on(request, cluster)` for every answer that states which members of the cluster it covers; null: the request has ended. */
export function followAnswers(on) {
  answers.add(on);
}

/** Check whether an answer states its members. `request`: a route that is polled, or a watched path. */
export function hear(request, body) {
  if (body === null || Array.isArray(body.cluster?.answered)) for (const on of answers) on(request, body?.cluster ?? null);
}

let csrf = "";
let readAgain = async () => {};
/** Called by lib/session.js. `again` reads the session: a restarted server knows it, but expects a new token. */
export function useCsrf(token, again = readAgain) {
  csrf = token ?? "";
  readAgain = again;
}

async function reach(address, options) {
  try {
    return await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "the server does not answer");
  }
}

async function answerOf(address, answer) {
  const text = await answer.text();
  let found = null;
  try {
    found = text ? JSON.parse(text) : null;
  } catch {
    // an error of a proxy in front
  }
  if (answer.status === 401) dispatchEvent(new CustomEvent("hopscope-login"));
  if (found) hear(address.split("?")[0], found);
  if (!answer.ok) throw new ApiError(answer.status, found?.error ?? `the server answered ${answer.status}`, found);
  return found;
}
