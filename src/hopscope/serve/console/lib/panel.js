/** Parts of views: panels, figures, empty states, messages, tabs. */

import { h, keyed, say } from "./dom.js";
import { link } from "./address.js";
import { get, path } from "./api.js";
import { flowText, queueName, sentence } from "./format.js";
import { loginAddress, mayChange, session } from "./session.js";

/**
 * A panel with a title.
 * @param {string} title
 * @param {{note?: string, tools?: any, class?: string, href?: string}} [options]
 */
export function panel(title, { note = "", tools = null, class: classes = "", href = "" } = {}) {
  const small = h("small", null, note);
  const body = h("div", { class: "body" });
  const bar = h("span", { class: "tools" }, tools);
  const element = h("section", { class: `panel ${classes}`, "aria-label": title },
    h("header", null, h("h2", null, href ? h("a", { href }, title) : title), small, bar), body);
  return { element, body, tools: bar, note: (text) => say(small, text) };
}

/** The empty state of a view: a line, and what to do next. `code`: a command or settings to copy. */
export function empty(line, next = "", code = "") {
  return h("div", { class: "empty" }, h("b", null, line), next && h("span", null, next), code && h("pre", null, code));
}

/** As `empty`, before any report has arrived: `next` introduces a command that sends simulated reports to this collector. */
export function noReports(line, next) {
  const command = h("pre", { hidden: true });
  listening ??= get(path("/system")).then((system) => system.listeners.find((each) => each.kind === "udp")?.url);
  listening.then((url) => {
    if (!url) return;
    const [address] = url.split("?");
    command.textContent = `hopscope simulate --to ${address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")}`;
    command.hidden = false;
  }, () => {
    listening = null;
  });
  return h("div", { class: "empty" }, h("b", null, line), h("span", null, next), command);
}

let listening = null;  // asked once

/** An error message in place of a view or panel. `what`: which attempt failed. */
export function trouble(error, again = null, what = "This could not be shown.") {
  return h("div", { class: "message bad", role: "alert" }, h("b", null, `${what} `), sentence(error.message ?? String(error)), " ",
    again && h("button", { class: "button", type: "button", onclick: again }, "Try again"));
}

/** A row of figures. `update` takes [{key, title, value, unit, note, mood, href}]. */
export function figures() {
  const element = h("div", { class: "figures" });
  const write = (node, each) => {
    node.className = "figure";
    if (each.href) node.setAttribute("href", each.href);
    const [title, value, note] = node.children;
    say(title, each.title);
    value.className = each.mood ?? "";
    say(value.firstChild, each.value);
    say(value.lastChild, each.unit ?? "");
    say(note, each.note ?? "");
    note.title = each.note ?? "";
  };
  const make = (each) => {
    const node = h(each.href ? "a" : "div", null, h("span"), h("b", null, h("span"), h("i")), h("small"));
    write(node, each);
    return node;
  };
  return { element, update: (items) => keyed(element, items, (each) => each.key + (each.href ? "a" : ""), make, write) };
}

/**
 * Tabs whose choice is a parameter of the address.
 * @param {string} label
 * @param {[string, string][]} choices value and title
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
export function tabs(label, choices, chosen, choose) {
  const element = h("div", { class: "tabs", role: "group", "aria-label": label });
  const draw = (value) => {
    keyed(element, choices, ([name]) => name,
      ([name, title]) => h("button", { type: "button", "aria-pressed": String(name === value), onclick: () => {
        draw(name);
        choose(name);
      } }, title),
      (button, [name]) => button.setAttribute("aria-pressed", String(name === value)));
  };
  draw(chosen);
  return { element, draw };
}

/** A link to a port's page, or to a switch on the map. `queue` follows it. */
export function placeLink(node, port, queue = null, metric = null) {
  const name = node?.name ?? (node ? String(node.id) : "unknown switch");
  if (!node) return h("span", { class: "faint" }, name);
  const more = queueName(queue, metric) && h("span", { class: "faint" }, queueName(queue, metric));
  if (!port) return h("a", { href: link("/fabric", { selected: String(node.id) }) }, name, more);
  return h("a", { href: link(["ports", node.name ?? node.id, port.name ?? port.id]) }, h("b", null, name), " · ",
    port.name ?? `port ${port.id}`, more);
}

/** Where an alarm is: a source with its switch, a port or switch, a flow, or else the network. */
export function alarmPlace(alarm) {
  const { source } = alarm;
  if (source) return h("span", null, source.address, source.node && [" ", placeLink(source.node, null)], h("span", { class: "faint" }, ` hw ${source.hw_id}`));
  if (alarm.node) return placeLink(alarm.node, alarm.port, alarm.queue, alarm.metric);
  if (alarm.flow) return h("a", { href: link(["flows", alarm.flow.id]) }, flowText(alarm.flow));
  return h("span", { class: "faint" }, "the network");
}

/** Text of the documentation: text between backticks is code. */
export function prose(text) {
  return text.split("`").map((each, at) => (at % 2 ? h("code", null, each) : each));
}

/** A short message at the bottom. `mood`: "bad" stays longer. */
export function toast(text, mood = "") {
  let place = document.querySelector(".toasts");
  if (!place) document.body.append((place = h("div", { class: "toasts", role: "status" })));
  const element = h("div", { class: `toast ${mood}` }, text);
  place.append(element);
  setTimeout(() => element.remove(), mood === "bad" ? 10_000 : 4000);
}

/** A button that makes a change once, however often it is clicked; if the change fails, it says so. It can be clicked again then, and if `run` resolves to false. */
export function changeButton(text, run, attributes = {}) {
  const button = h("button", { class: "button small", type: "button", ...attributes, onclick: async () => {
    button.disabled = true;
    try {
      button.disabled = (await run()) !== false;
    } catch (error) {
      toast(sentence(error.message), "bad");
      button.disabled = false;
    }
  } }, text);
  return button;
}

/** Ask for confirmation of a change that cannot be undone; resolves to whether the user confirmed. */
export function confirmed(question, note, action) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { class: "note-dialog", "aria-label": question }, h("form", { method: "dialog", class: "form" }, h("h2", null, question), h("p", { class: "note" }, note),
      h("div", { class: "row" }, h("button", { class: "button danger", value: "yes" }, action), h("button", { class: "button", value: "", autofocus: true }, "Cancel"))));
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "yes");
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The role that a change needs, shown to viewers in place of its button: "Silencing needs the role operator …"; null for an operator. */
export function operatorNote(what) {
  if (mayChange()) return null;
  return h("p", { class: "note" }, `${what} needs the role operator${session.user ? `; ${session.user} is a viewer` : ""}. `,
    h("a", { href: loginAddress() }, session.user ? "Log in as another user" : "Log in"));
}
