/** The address: path and query hold everything that a view shows, so that every view can be linked. */

const changed = new EventTarget();
/** Parameters that are kept when another page is opened. */
const KEPT = ["scope", "from", "to"];

/** @returns {{path: string, parts: string[], query: URLSearchParams}} the present address */
export function here() {
  const { pathname, search } = location;
  return {
    path: pathname,
    parts: pathname.split("/").filter(Boolean).map(decoded),
    query: new URLSearchParams(search),
  };
}

/** A decoded part of a path; unchanged if it has a `%` that encodes nothing. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A parameter of the address, or `other` if it is missing. */
export function param(name, other = "") {
  return here().query.get(name) ?? other;
}

/**
 * The address of a page: parts of its path, and parameters. Scope and time range are kept, unless `params` has them.
 * @param {string | (string | number)[]} path
 * @param {Record<string, any>} [params]
 */
export function link(path, params = {}) {
  const query = new URLSearchParams();
  const now = here().query;
  for (const name of KEPT) if (!(name in params) && now.has(name)) query.set(name, now.get(name));
  for (const [name, value] of Object.entries(params)) put(query, name, value);
  const text = Array.isArray(path) ? "/" + path.map((each) => encodeURIComponent(String(each))).join("/") : path;
  const search = query.toString();
  return search ? `${text}?${search}` : text;
}

/** Change parameters of this address; null removes one. `push`: Back returns to the previous view. */
export function set(params, push = false) {
  const { path, query } = here();
  const before = query.toString();
  for (const [name, value] of Object.entries(params)) put(query, name, value);
  if (query.toString() === before) return;
  const search = query.toString();
  history[push ? "pushState" : "replaceState"](null, "", search ? `${path}?${search}` : path);
  changed.dispatchEvent(new Event("change"));
}

/** Go to another address of the console. */
export function go(address) {
  history.pushState(null, "", address);
  changed.dispatchEvent(new Event("change"));
}

/** Call `on` whenever the address changes; returns a function that stops it. */
export function follow(on) {
  changed.addEventListener("change", on);
  return () => changed.removeEventListener("change", on);
}

function put(query, name, value) {
  query.delete(name);
  if (value === null || value === undefined || value === "" || value === false) return;
  for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
}

addEventListener("popstate", () => changed.dispatchEvent(new Event("change")));

/** Clicks on links of the console change the view without loading a page. */
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || anchor.target || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
  if (/^\/(api|console|metrics|healthz|readyz|login|logout|oidc)(\/|$)/.test(anchor.pathname)) return;
  event.preventDefault();
  go(anchor.pathname + anchor.search);
});
