/** A text area for SQL: Tab indents, Ctrl+Enter runs, lines are numbered, and the line of an error is marked. */

import { h, fill } from "../../lib/dom.js";

const INDENT = "  ";

/**
 * @param {{label: string, run: () => void}} options
 */
export function editor({ label, run }) {
  let wrong = null;
  const lines = h("div", { class: "sql-lines", "aria-hidden": "true" });
  const area = h("textarea", { class: "mono", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", rows: 8, "aria-label": label,
    placeholder: "SELECT kind, count(*) FROM events GROUP BY kind" });
  const hint = h("span", { class: "note" }, "Tab indents; Esc, then Tab, leaves the field.");
  const element = h("div", null, h("div", { class: "sql" }, lines, area), hint);
  let leaving = false;

  function draw() {
    const count = area.value.split("\n").length;
    area.rows = Math.min(24, Math.max(8, count + 1));
    fill(lines, Array.from({ length: count }, (_, at) =>
      h("span", { class: wrong?.line === at + 1 ? "wrong" : null }, String(at + 1))));
    lines.scrollTop = area.scrollTop;
  }

  function put(text, from = area.selectionStart, to = area.selectionEnd) {
    area.focus();
    area.setSelectionRange(from, to);
    // the only way to change a text area that the user can undo
    if (!document.execCommand("insertText", false, text)) area.setRangeText(text, from, to, "end");
    written();
  }

  function written() {
    wrong = null;
    area.removeAttribute("aria-invalid");
    draw();
  }

  area.addEventListener("input", written);
  area.addEventListener("scroll", () => (lines.scrollTop = area.scrollTop));
  area.addEventListener("blur", () => (leaving = false));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    } else if (event.key === "Escape") leaving = true;
    else if (event.key === "Tab" && !leaving) {
      event.preventDefault();
      if (event.shiftKey) unindent();
      else put(INDENT);
    } else if (event.key === "Enter" && !event.isComposing) {
      const start = area.value.lastIndexOf("\n", area.selectionStart - 1) + 1;
      const before = /^ */.exec(area.value.slice(start, area.selectionStart))[0];
      if (!before) return;
      event.preventDefault();
      put("\n" + before);
    }
  });

  function unindent() {
    const start = area.value.lastIndexOf("\n", area.selectionStart - 1) + 1;
    const spaces = /^ {0,2}/.exec(area.value.slice(start))[0].length;
    if (spaces) put("", start, start + spaces);
  }

  draw();
  return {
    element,
    get value() {
      return area.value;
    },
    set(text) {
      area.value = text;
      written();
    },
    focus: () => area.focus(),
    /** Insert a name at the cursor, with a space in front if a word precedes it. */
    insert(name) {
      const before = area.value.slice(0, area.selectionStart);
      put((/[\w)]$/.test(before) ? " " : "") + name);
    },
    /** Mark the place of an error; null: none. */
    mark(line, column = null) {
      wrong = line === null ? null : { line };
      if (line === null) area.removeAttribute("aria-invalid");
      else area.setAttribute("aria-invalid", "true");
      draw();
      if (line === null || column === null) return;
      const start = area.value.split("\n").slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
      const word = /^[\w."]+|^./.exec(area.value.slice(start))?.[0].length ?? 0;
      area.focus();
      area.setSelectionRange(start, start + word);
    },
  };
}
