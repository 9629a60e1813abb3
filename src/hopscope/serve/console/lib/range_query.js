/** Requests over the time range of the address: repeated while its end is now, else sent once. */

import { here } from "./address.js";
import { get, path } from "./api.js";
import { watch } from "./live.js";
import { iso, range } from "./range.js";

const SECONDS = 900;

/** The parameters `since` and `until` of the range of the address. */
export function times(seconds = SECONDS) {
  const { from, to, live } = range(seconds);
  const given = here().query.get("from") ?? `-${seconds}s`;
  const since = live && /^-\d+[smhd]$/.test(given) ? given.slice(1) : iso(from);
  return { since, until: live ? null : iso(to) };
}

/**
 * Ask for an answer over the range; `on` is given each one, or the error. Returns a function that stops it.
 * @param {string} route
 * @param {Record<string, any>} params
 * @param {(data: any, error: Error | null) => void} on
 */
export function follow(route, params, on, { seconds = SECONDS, scope = true } = {}) {
  const address = path(route, { ...params, ...times(seconds) }, { scope });
  if (range(seconds).live) {
    return watch(address, (data, status) => (status === 200 ? on(data, null) : on(null, new Error(data?.error ?? `the server answered ${status}`))));
  }
  const ended = new AbortController();
  get(address, { signal: ended.signal }).then((data) => on(data, null), (error) => error.name !== "AbortError" && on(null, error));
  return () => ended.abort();
}

/** Call `on` with an answer now and every `seconds` until it is ended. */
export function repeat(address, seconds, on) {
  const ended = new AbortController();
  let timer = 0;
  const ask = async () => {
    try {
      if (!document.hidden) on(await get(address, { signal: ended.signal }), null);
    } catch (error) {
      if (error.name === "AbortError") return;
      on(null, error);
    }
    if (!ended.signal.aborted) timer = setTimeout(ask, seconds * 1000);
  };
  ask();
  return () => {
    ended.abort();
    clearTimeout(timer);
  };
}
