/** Limits: those in force, a form with a preview of the events that other limits would cause, and past changes. */

import { h, fill } from "../lib/dom.js";
import { link, param, set } from "../lib/address.js";
import { get, path, send } from "../lib/api.js";
import { exports } from "../lib/export.js";
import { ago, words } from "../lib/format.js";
import { operatorNote, panel, toast, trouble } from "../lib/panel.js";
import { followSession, mayChange } from "../lib/session.js";
import { table } from "../lib/table.js";
import { limitsAt } from "./port/limits.js";
import { NAMES, pastChanges, text, unitOf } from "./limits/past.js";
import { previewPanel } from "./limits/preview.js";

export const title = "Limits";
const MEANING = {
  change: "A value that differs from the stored value by more than this is stored as an event.",
  raise_above: "A value above this raises an alarm.",
  clear_below: "A value below this clears the alarm. If it is not set, every report above the limit is an event.",
};

export async function show(place) {
  const [first, switches] = await Promise.all([get(path("/limits")), get(path("/switches", { limit: 1000 }, { scope: true })).catch(() => ({ items: [] }))]);
  let limits = first;
  const names = new Map(switches.items.map(({ node }) => [String(node.id), node.name ?? String(node.id)]));
  const ids = new Map(switches.items.flatMap(({ node }) => [[String(node.id), String(node.id)], [node.name ?? String(node.id), String(node.id)]]));
  const changed = h("span", { class: "soft" });
  const rows = limitTable(names);
  const preview = previewPanel();
  const past = pastChanges(names);

  // ------------------------------------------------------------------ form
  const metrics = Object.keys(limits.general);
  const metric = h("select", { name: "metric", onchange: () => set({ metric: metric.value, ...blank() }) }, metrics.map((name) => h("option", { value: name }, words(name))));
  const node = h("input", { name: "node", list: "limit-switches", placeholder: "all switches", autocomplete: "off", onchange: () => set({ node: node.value.trim() || null, ...blank() }) });
  const list = h("datalist", { id: "limit-switches" }, [...names.values()].map((name) => h("option", { value: name })));
  const fields = NAMES.map(([name, label]) => {
    const input = h("input", { name, inputmode: "numeric", autocomplete: "off", "aria-describedby": `about-${name}`, onchange: () => set({ [name]: input.value.trim() || null }) });
    const now = h("small", { class: "faint" });
    const unit = h("span");
    return { name, input, now, unit, element: h("label", { class: "field" }, h("span", null, label, unit), input, now, h("small", { id: `about-${name}` }, MEANING[name])) };
  });
  const apply = h("button", { class: "button main", type: "submit" }, "Apply");
  const general = h("button", { class: "button", type: "button", onclick: () => set(Object.fromEntries(NAMES.map(([name]) => [name, "general"]))) }, "Same as all switches");
  const clear = h("button", { class: "button", type: "button", onclick: () => set(blank()) }, "Discard");
  const need = h("span");
  const message = h("div", { class: "wide", role: "status" });
  const form = h("form", { class: "form limit-form", onsubmit: (event) => {
    event.preventDefault();
    change();
  } }, h("label", { class: "field" }, "Metric", metric), h("label", { class: "field" }, "Switch", node, h("small", null, "Leave empty for all switches."), list), fields.map((each) => each.element),
  h("div", { class: "row wide" }, apply, general, clear, need), message);
  const box = panel("Change a limit", { note: "a preview shows its effect on the last hour before you apply it" });
  fill(box.body, form, preview.element);
  fill(place, h("div", { class: "view-head" }, changed), rows.element, box.element, past.element);

  const blank = () => Object.fromEntries(NAMES.map(([name]) => [name, null]));
  const nodeId = () => (param("node") ? ids.get(param("node")) ?? param("node") : null);

  /** The limits that the form proposes, as far as they differ from those in force. Throws an error of one line. */
  function proposal() {
    const given = {};
    for (const [name, label] of NAMES) {
      const typed = param(name);
      if (!typed) continue;
      if (typed === "never") given[name] = null;
      else if (typed === "general") given[name] = "general";
      else if (/^\d{1,18}$/.test(typed)) given[name] = Number(typed);
      else throw new Error(`${label}: expected a whole number, or the word never`);
    }
    return given;
  }

  function draw() {
    const now = metrics.includes(param("metric")) ? param("metric") : metrics[0];
    metric.value = now;
    node.value = param("node");
    const { values, own } = limitsAt(limits, now, nodeId() ?? "");
    for (const { name, input, now: shown, unit } of fields) {
      unit.textContent = unitOf(now) ? `, in ${unitOf(now)}` : "";
      input.value = param(name);
      input.placeholder = values[name] === null ? "never" : String(values[name]);
      const whose = !nodeId() ? "" : own.has(name) ? ", of this switch" : ", same as all switches";
      shown.textContent = `now ${text(values[name], unitOf(now))}${whose}`;
    }
    general.hidden = !nodeId();
    apply.hidden = !mayChange();
    fill(need, operatorNote("Applying a change"));
    changed.textContent = limits.changed ? `Last changed ${ago(limits.changed.time)} by ${limits.changed.by.replace(/ \(uid .*/, "")}` : "Not changed since the collector started.";
    rows.update(limits, now, nodeId());
    fill(message);
    try {
      const given = proposal();
      apply.disabled = clear.disabled = !Object.keys(given).length;
      preview.ask({ metric: now, node: nodeId(), ...given }, Object.keys(given).length > 0);
    } catch (error) {
      apply.disabled = true;
      preview.hide();
      fill(message, h("div", { class: "message bad" }, error.message));
    }
  }

  async function change() {
    const given = proposal();
    if (!Object.keys(given).length) return;
    const now = metric.value;
    const body = nodeId() ? { switches: { [nodeId()]: { [now]: given } } } : { general: { [now]: given } };
    apply.disabled = true;
    try {
      limits = await send("PATCH", path("/limits"), body);
      toast(`${words(now)}: the limits are in force.`);
      set(blank());
      past.read();
      draw();
    } catch (error) {
      apply.disabled = false;
      fill(message, trouble(error, null, "The limits were not changed."));
    }
  }

  draw();
  past.read();
  const unfollow = followSession(draw);
  return { end: unfollow, change: draw };
}

/** General limits, and below them those of single switches. */
function limitTable(names) {
  let shown = { limits: null, metric: "", node: null };
  const rowsOf = (limits) => [
    ...Object.entries(limits.general).map(([metric, values]) => ({ metric, node: null, values, own: new Set(NAMES.map(([name]) => name)) })),
    ...Object.entries(limits.switches).flatMap(([node, metrics]) => Object.keys(metrics).map((metric) => ({ metric, node, ...limitsAt(limits, metric, node) }))),
  ];
  const rows = table({
    label: "Limits in force", key: (each) => `${each.metric}/${each.node}`,
    href: (each) => link("/limits", { metric: each.metric, node: each.node === null ? null : names.get(each.node) ?? each.node }),
    mood: (each) => (each.metric === shown.metric && each.node === shown.node ? "chosen" : ""),
    columns: [
      { name: "metric", title: "Metric", cell: (each) => h("a", { href: link("/limits", { metric: each.metric, node: each.node === null ? null : names.get(each.node) ?? each.node }) }, words(each.metric)), value: (each) => each.metric },
      { name: "switch", title: "Switch", cell: (each) => (each.node === null ? h("span", { class: "faint" }, "all") : names.get(each.node) ?? each.node), value: (each) => each.node ?? "" },
      ...NAMES.map(([name, heading]) => ({ name, title: heading, number: true, help: MEANING[name], value: (each) => each.values[name],
        cell: (each) => h("span", { class: each.node !== null && each.own.has(name) ? "own" : "" }, text(each.values[name], unitOf(each.metric))) })),
    ],
  });
  const box = panel("Limits in force", { note: "occupancy, utilisation and congestion in the switches' own units · coloured: set for one switch", tools: [exports("limits", { table: rows.export, json: () => shown.limits })] });
  fill(box.body, rows.element);
  return { element: box.element, update: (limits, metric, node) => {
    shown = { limits, metric, node };
    rows.update(rowsOf(limits));
  } };
}
