/** Changes with their authors, and sessions. */

import { h, fill } from "../../lib/dom.js";
import { param, set } from "../../lib/address.js";
import { get, path, send } from "../../lib/api.js";
import { exports } from "../../lib/export.js";
import { ago, moment } from "../../lib/format.js";
import { changeButton, empty, operatorNote, panel, trouble } from "../../lib/panel.js";
import { logOut } from "../../lib/session.js";
import { table } from "../../lib/table.js";

const PAGE = 100;
const short = (value) => (value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));

const valueOf = (value) => (value === null || value === undefined ? "–" : h("code", { class: "long" }, short(value)));

export function auditPart() {
  let items = [];
  let next = null;
  const rows = table({
    label: "Changes", key: (each) => String(each.id), sort: "-time", empty: empty("No change has been made yet.", "Changes to limits, silences, tracked flows, saved queries and users appear here."),
    columns: [
      { name: "time", title: "When", cell: (each) => h("span", { title: moment(each.time) }, ago(each.time)), value: (each) => each.time },
      { name: "who", title: "Who", cell: (each) => h("b", null, each.who), value: (each) => each.who },
      { name: "address", title: "From", cell: (each) => each.address || "this machine" },
      { name: "kind", title: "Change", cell: (each) => each.kind },
      { name: "subject", title: "Subject", cell: (each) => each.subject },
      { name: "before", title: "Before", sorts: false, cell: (each) => valueOf(each.before), value: (each) => short(each.before) },
      { name: "after", title: "After", sorts: false, cell: (each) => valueOf(each.after), value: (each) => short(each.after) },
    ],
  });
  const kind = h("input", { type: "search", placeholder: "Kind, such as limits", "aria-label": "Kind", value: param("q"), onchange: () => {
    set({ q: kind.value });
    load(null);
  } });
  const more = h("button", { class: "button", type: "button", hidden: true, onclick: () => load(next) }, "Earlier changes");
  const box = panel("Changes", { note: "who changed what, newest first", tools: [kind, exports("changes", { table: rows.export, json: () => items })] });
  const wrong = h("div");
  fill(box.body, wrong, rows.element, more);

  async function load(before) {
    try {
      const found = await get(path("/audit", { kind: kind.value.trim(), before, limit: PAGE }));
      items = before === null ? found.items : [...items, ...found.items];
      next = found.next;
      more.hidden = next === null;
      rows.update(items);
      fill(wrong);
    } catch (error) {
      fill(wrong, trouble(error, () => load(null)));
    }
  }
  load(null);
  return { elements: [box.element], change() {
    if (kind.value === param("q")) return;
    kind.value = param("q");
    load(null);
  } };
}

export function accessPart() {
  const wrong = h("div");
  const rows = table({
    label: "Sessions", key: (each) => each.number, sort: "user", empty: empty("No user is logged in.", "On this machine the console needs no login. For access from elsewhere, add users:", "hopscope users add NAME --role viewer"),
    columns: [
      { name: "user", title: "User", cell: (each) => h("b", null, each.user), value: (each) => each.user },
      { name: "role", title: "Role", cell: (each) => each.role ?? "–" },
      { name: "how", title: "Login", cell: (each) => each.authenticated_by },
      { name: "address", title: "From", cell: (each) => each.address },
      { name: "agent", title: "Browser", cell: (each) => h("span", { title: each.agent }, browserName(each.agent)), value: (each) => each.agent },
      { name: "seen", title: "Last seen", cell: (each) => ago(each.seen), value: (each) => each.seen },
      { name: "began", title: "Logged in", cell: (each) => h("span", { title: moment(each.created) }, ago(each.created)), value: (each) => each.created },
      { name: "end", title: "", sorts: false, value: () => "", cell: (each) => (each.current ? changeButton("Log out", logOut, { class: "button small danger" })
        : changeButton("End", () => end(each), { class: "button small danger", "aria-label": `End the session of ${each.user} from ${each.address}` })) },
    ],
  });
  const box = panel("Sessions", { note: "who is logged in", tools: exports("sessions", { table: rows.export }) });
  fill(box.body, wrong, rows.element, operatorNote("Seeing the sessions of other users"));

  async function load() {
    try {
      rows.update((await get(path("/sessions"))).items);
      fill(wrong);
    } catch (error) {
      fill(wrong, trouble(error, load));
    }
  }

  async function end(session) {
    await send("DELETE", path(`/sessions/${encodeURIComponent(session.number)}`));
    await load();
  }
  load();
  return { elements: [box.element] };
}

const BROWSERS = [["Edg", "Edge"], ["OPR", "Opera"], ["Firefox"], ["Chrome"], ["Version", "Safari"]];
const SYSTEMS = [["Android"], ["iPhone"], ["iPad"], ["Windows"], ["Mac OS X", "macOS"], ["CrOS", "ChromeOS"], ["Linux"]];

/** "Firefox 132, Linux" from a User-Agent header; a header in another form is returned unchanged. */
function browserName(agent) {
  const [sign, name = sign] = BROWSERS.find(([each]) => agent.includes(`${each}/`)) ?? [];
  if (!sign) return agent || "–";
  const [system, shown = system] = SYSTEMS.find(([each]) => agent.includes(each)) ?? [];
  return [`${name} ${agent.match(new RegExp(`${sign}/(\\d+)`))?.[1] ?? ""}`.trim(), shown].filter(Boolean).join(", ");
}
