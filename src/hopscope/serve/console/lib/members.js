/** Which members the values come from: this one, or all members of its cluster that answered. */

import { link, param } from "./address.js";
import { get, followAnswers, path } from "./api.js";
import { session } from "./session.js";

/** @typedef {{answered: string[], missing: Record<string, string>, local_only: string | null, without_lake: string | null}} Cluster */

const CONSOLES_MS = 15_000;
const changed = new EventTarget();
/** By request: the members that last answered it. @type {Map<string, Cluster>} */
const heard = new Map();
let consoles = {};

/** Whether the address asks for all members. */
export function asksCluster() {
  return param("scope") === "cluster";
}

/** Whether a row comes from a member other than the one that serves this console. */
export function isElsewhere(row) {
  return Boolean(row?.member) && row.member !== session.member;
}

/** Address of an event's page: events are counted by each member. */
export function eventLink(event, member = event.member) {
  return link(["events", event.id], { member: member ?? (asksCluster() ? session.member : null) });
}

/** Address of the console of another member; null if it is not known. */
export function consoleOf(member) {
  return /^https?:\/\//.test(consoles[member] ?? "") ? consoles[member] : null;
}

/** Other members with a console: [name, address]. */
export function otherConsoles() {
  return Object.keys(consoles).filter((name) => name !== session.member && consoleOf(name)).map((name) => [name, consoleOf(name)]);
}

/** Which members answered the requests of this view: {answered, missing, local, withoutLake}; null if no request covered the cluster. */
export function whose() {
  if (!heard.size) return null;
  const all = [...heard.values()];
  const missing = Object.assign({}, ...all.map((each) => each.missing));
  const answered = [...new Set(all.flatMap((each) => each.answered))].filter((name) => !(name in missing)).sort();
  const first = (name) => all.find((each) => each[name])?.[name] ?? "";
  return { answered, missing, local: first("local_only"), withoutLake: first("without_lake") };
}

/** Forget the answers of the previous view. */
export function forget() {
  heard.clear();
  changed.dispatchEvent(new Event("change"));
}

/** Call `on` when the members that answered, or the address of a console, have changed. */
export function followMembers(on) {
  changed.addEventListener("change", on);
}

followAnswers((request, cluster) => {
  const before = JSON.stringify(heard.get(request));
  if (cluster) heard.set(request, cluster);
  else heard.delete(request);
  if (before !== JSON.stringify(heard.get(request))) changed.dispatchEvent(new Event("change"));
});

async function readConsoles() {
  if (!session.cluster || document.hidden || !asksCluster()) return;
  const { cluster } = await get(path("/system"));
  const found = Object.fromEntries((cluster?.members ?? []).map((each) => [each.name, each.address]));
  if (JSON.stringify(found) === JSON.stringify(consoles)) return;
  consoles = found;
  changed.dispatchEvent(new Event("change"));
}

/** Learn the members' addresses; called when an address is shown that asks for all. */
export const learnConsoles = () => readConsoles().catch(() => {});
setInterval(learnConsoles, CONSOLES_MS);
