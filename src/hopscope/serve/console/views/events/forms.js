/** Forms for operators: acknowledge an alarm, silence events. */

import { h, fill } from "../../lib/dom.js";
import { path, send } from "../../lib/api.js";
import { sentence, words } from "../../lib/format.js";
import { consoleOf, isElsewhere } from "../../lib/members.js";
import { toast } from "../../lib/panel.js";
import { mayChange, session } from "../../lib/session.js";
import { METRICS, NOTABLE, ROUTINE } from "./requests.js";

const SPANS = [["1h", "1 hour"], ["4h", "4 hours"], ["12h", "12 hours"], ["1d", "1 day"], ["7d", "7 days"], ["30d", "30 days"]];

/** Acknowledge an open alarm. `alarm`: of the API; `done` is called after it was noted. */
export function acknowledge(alarm, done) {
  if (isElsewhere(alarm)) return void toast(elsewhere(alarm));
  const note = h("input", { name: "note", maxlength: 1000, placeholder: "cause, ticket, next step", autocomplete: "off" });
  dialog(`Acknowledge: ${words(alarm.metric === "none" ? alarm.kind : alarm.metric)}`, "Acknowledge",
    [h("p", { class: "note" }, "Others see that you are working on this alarm until it ends."), h("label", null, "Note", note)],
    async () => {
      await send("POST", path("/acknowledgements"), { key: alarm.key, note: note.value.trim() });
      toast("Acknowledged until the alarm ends.");
      done?.();
    });
}

/** Take an acknowledgement back. Throws ApiError. */
export async function takeBack(alarm, done) {
  await send("DELETE", path("/acknowledgements", { key: alarm.key }));
  done?.();
}

/** Silence events; `from`: an event or alarm whose values are filled in, or null. */
export function silence(from, done) {
  if (isElsewhere(from)) return void toast(elsewhere(from));
  const pick = (name, options, value) => h("select", { name }, h("option", { value: "" }, "any"),
    options.map((each) => h("option", { value: each, selected: each === value }, words(each))));
  const kind = pick("kind", [...NOTABLE, ...ROUTINE], "");
  const metric = pick("metric", METRICS, from?.metric ?? "");
  const node = from?.source?.node ?? from?.node;
  const input = (name, value, hint) => h("input", { name, value: value ?? "", placeholder: hint, autocomplete: "off", spellcheck: "false" });
  const at = input("node", node ? node.name ?? node.id : "", "any switch");
  const port = input("port", from?.port?.id, "any port");
  const prefix = input("prefix", node ? "" : from?.source?.address ?? from?.flow?.src, "any network");
  const until = h("select", { name: "until" }, SPANS.map(([value, title]) => h("option", { value }, title)));
  const note = input("note", "", "why");
  dialog("Silence events", "Silence", [
    h("p", { class: "note" }, "These events are hidden in the console, and alerts about them are suppressed. They are still detected, kept and exported."),
    h("div", { class: "two" }, h("label", null, "Kind", kind), h("label", null, "Metric", metric), h("label", null, "Switch", at), h("label", null, "Port", port),
      h("label", null, "Network", prefix), h("label", null, "For", until)),
    h("label", null, "Note", note),
  ], async () => {
    await send("POST", path("/silences"), { kind: kind.value, metric: metric.value, node: at.value.trim() || null,
      port: port.value.trim() ? Number(port.value) : null, prefix: prefix.value.trim(), until: until.value, note: note.value.trim() });
    toast("Silenced. The Silences tab lists silences and can end them.");
    done?.();
  });
}

/** End a silence. Throws ApiError. */
export async function endSilence(number) {
  await send("DELETE", path(`/silences/${number}`));
  toast("The silence has ended.");
}

function elsewhere({ member }) {
  return `Each member keeps its own acknowledgements and silences: use the console of ${member}${consoleOf(member) ? `, ${consoleOf(member)}` : ""}.`;
}

function dialog(title, action, content, run) {
  if (!mayChange()) return void toast(`This needs the role operator${session.user ? `; ${session.user} is a viewer` : ": log in first"}.`, "bad");
  const problem = h("div", { class: "message bad", role: "alert", hidden: true });
  const button = h("button", { class: "button main", type: "submit" }, action);
  const form = h("form", { class: "form" }, content, problem,
    h("div", { class: "row" }, button, h("button", { class: "button", type: "button", onclick: () => element.close() }, "Cancel")));
  const element = h("dialog", { class: "note-dialog", "aria-label": title }, h("h2", null, title), form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await run();
      element.close();
    } catch (error) {
      problem.hidden = false;
      fill(problem, sentence(error.message));
    }
    button.disabled = false;
  });
  element.addEventListener("close", () => element.remove());
  document.body.append(element);
  element.showModal();
  form.querySelector("input")?.focus();
}
