/** Processes and health: what runs, what is wrong, and what to do. */

import { h, fill } from "../../lib/dom.js";
import { exports } from "../../lib/export.js";
import { ago, bytes, clock, inLocalTime, percent, si, span } from "../../lib/format.js";
import { empty, figures, panel, prose } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

const state = (each) => (each.stopped ? "left stopped" : each.alive ? "running" : "exited");
const stands = (each) => each.alive && each.tick_seconds !== null && each.tick_seconds > 5;

export function processPart() {
  const numbers = figures();
  const health = healthPanel();
  const rows = table({
    label: "Processes", key: (each) => each.name, mood: (each) => (each.alive || each.name === "standby" ? "" : "bad"), sort: "name", empty: empty("No process is running."),
    columns: [
      { name: "name", title: "Process", cell: (each) => h("b", null, each.name), value: (each) => each.name },
      { name: "state", title: "State", phone: "plain", cell: (each) => h("span", { class: `chip dot ${each.alive ? "good" : each.name === "standby" ? "" : "bad"}` }, state(each)), value: state },
      { name: "pid", title: "PID", number: true, cell: (each) => each.pid ?? "–", value: (each) => each.pid },
      { name: "cpu", title: "CPU", number: true, help: "Share of one CPU core over the last seconds", value: (each) => each.cpu_ratio,
        cell: (each) => (each.cpu_ratio === null ? "–" : h("span", null, h("span", { class: `meter ${each.cpu_ratio > 0.9 ? "hot" : ""}` }, h("i", { style: { width: `${Math.min(100, 100 * each.cpu_ratio)}%` } })), h("span", null, percent(each.cpu_ratio)))) },
      { name: "memory", title: "Memory", number: true, help: "Resident set; shared memory counts in each process", cell: (each) => (each.memory_bytes === null ? "–" : bytes(each.memory_bytes)), value: (each) => each.memory_bytes },
      { name: "time", title: "CPU time", number: true, cell: (each) => (each.cpu_seconds === null ? "–" : span(each.cpu_seconds)), value: (each) => each.cpu_seconds },
      { name: "tick", title: "Last tick", number: true, help: "Every process loop reports once per second that it is running", value: (each) => each.tick_seconds,
        cell: (each) => (each.tick_seconds === null ? "–" : h("span", { class: stands(each) ? "warn" : null }, `${each.tick_seconds.toFixed(0)} s ago`)) },
      { name: "restarts", title: "Restarts", number: true, cell: (each) => h("span", { class: each.restarts ? "warn" : null }, String(each.restarts)), value: (each) => each.restarts },
      { name: "error", title: "Last exit", cell: (each) => each.last_error ?? "–" },
    ],
  });
  const box = panel("Processes", { tools: exports("processes", { table: rows.export }) });
  fill(box.body, rows.element);
  const listening = panel("Listening", { class: "w6" });
  box.element.classList.add("w12");
  return { elements: [full(numbers.element), health.element, box.element, listening.element], update(data) {
    const used = data.processes.reduce((sum, each) => sum + (each.cpu_ratio ?? 0), 0);
    const wrong = data.components.filter((each) => !each.ready);
    numbers.update([
      { key: "ready", title: "Collector", value: data.ready ? "ready" : "not ready", mood: data.ready ? "good" : "bad", note: wrong.length ? `${wrong.length} of ${data.components.length} parts need attention` : `all ${data.components.length} parts are healthy` },
      { key: "up", title: "Running for", value: data.running && data.started ? ago(data.started).replace(" ago", "") : "–", note: data.started ? `since ${clock(data.started, 0)}` : "" },
      { key: "cpu", title: "CPU cores", value: used ? used.toFixed(2) : "–", note: "in use by all processes" },
      { key: "restarts", title: "Restarts", value: si(data.processes.reduce((sum, each) => sum + each.restarts, 0)), note: "of all processes" },
      { key: "version", title: "Version", value: data.version, note: data.data },
    ]);
    health.update(data);
    rows.update(data.processes);
    fill(listening.body, h("dl", { class: "facts" }, data.listeners.map((each) => [h("dt", null, each.kind), h("dd", null, h("code", null, each.url), each.output && [" → ", h("code", null, each.output)], ["udp", "ring", "mirror"].includes(each.kind) && h("span", { class: "soft" }, ` dialect ${each.dialect}`))]),
      data.labels && [h("dt", null, "labels"), h("dd", null, h("code", null, data.labels))]), !data.listeners.length && !data.labels && h("p", { class: "note" }, "This collector does not listen on any address."));
  } };
}

function full(element) {
  element.classList.add("w12");
  return element;
}

function healthPanel() {
  const rows = table({ label: "Health", key: (each) => each.name, mood: (each) => (each.ready ? "" : each.needed ? "bad" : ""), columns: [
    { name: "name", title: "Part", cell: (each) => h("b", null, each.name), value: (each) => each.name },
    { name: "state", title: "State", phone: "plain", cell: (each) => h("span", { class: `chip dot ${each.ready ? "good" : each.needed ? "bad" : "warn"}` }, each.ready ? "ready" : each.needed ? "not ready" : "needs attention"), value: (each) => String(each.ready) },
    { name: "detail", title: "Now", phone: "plain", cell: (each) => h("span", { class: "long" }, inLocalTime(each.detail)), value: (each) => each.detail },
    { name: "advice", title: "What to do", cell: (each) => (each.advice ? h("b", { class: "long" }, prose(each.advice)) : "–"), value: (each) => each.advice },
  ] });
  const box = panel("Health", { note: "a part that is not ready makes the collector not ready; one that needs attention does not", tools: exports("health", { table: rows.export }) });
  fill(box.body, rows.element);
  return { element: box.element, update: ({ components }) => rows.update([...components].sort((a, b) => rank(a) - rank(b))) };
}

const rank = (each) => (each.ready ? (each.advice ? 2 : 3) : each.needed ? 0 : 1);
