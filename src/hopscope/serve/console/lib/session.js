/** The user of this session, and their role. */

import { get, path, send, useCsrf } from "./api.js";

const changed = new EventTarget();
/** The answer of /api/v0/session: {user, role: "viewer" | "operator", csrf, ...}. */
export let session = { user: null, role: "viewer" };

/** Read it; call again after a login. */
export async function load() {
  try {
    session = (await get(path("/session"))) ?? session;
    useCsrf(session.csrf, load);
  } catch (error) {
    if (error.status !== 404) throw error;
  }
  changed.dispatchEvent(new Event("change"));
  return session;
}

/** Whether changes are allowed; viewers see which role is needed, instead of a button that fails. */
export function mayChange() {
  return session.role === "operator";
}

/** Call `on` when it changes; returns a function that stops it. */
export function followSession(on) {
  changed.addEventListener("change", on);
  return () => changed.removeEventListener("change", on);
}

/** Address of the login page, which leads back to the present view. */
export function loginAddress() {
  return `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
}

/** End this browser's session. Throws ApiError. */
export async function logOut() {
  await send("POST", path("/logout"));
  location.assign(session.login_needed ? "/login" : "/");
}

addEventListener("hopscope-login", () => location.assign(loginAddress() + (session.user ? "&ended=1" : "")));
