/** The report that caused an event: the bytes of its datagram, or of each postcard of its path, decoded. */

import { h, fill } from "../../lib/dom.js";
import { download } from "../../lib/export.js";
import { moment } from "../../lib/format.js";
import { empty, panel, tabs, trouble } from "../../lib/panel.js";
import { bytesView, objectView } from "./bytes.js";

/**
 * @param {any} event of the API
 * @param {(more: string) => Promise<any>} ask
 */
export async function evidencePanel(event, ask) {
  const { id } = event;
  const box = panel("The report that caused it");
  let data;
  try {
    data = await ask("/evidence");
  } catch (error) {
    fill(box.body, error.status === 404 ? empty("The report was not kept.", sentence(error.message)) : trouble(error));
    return box.element;
  }
  const place = h("div");
  const choices = data.datagrams.map(({ hop }, at) => [String(at), `Hop ${hop}${switchOf(data.report, hop)}`]);
  const cause = Math.max(0, data.datagrams.findIndex(({ hop }) => data.report.hops?.[hop]?.node_id === event.node?.id && hop !== null));
  const postcards = choices.length && data.datagrams[0].hop !== null
    ? tabs("Postcards of the path", choices, String(cause), (at) => show(Number(at))) : null;

  function show(at) {
    const one = data.datagrams[at];
    const { source, dialect } = one ?? data;
    box.note([source && `from ${source}`, `received ${moment((one ?? data).received)}`, dialect && `dialect ${dialect}`].filter(Boolean).join(", "));
    const view = one?.fields.length ? bytesView(one.bytes, one.fields) : null;
    const name = `report-${id}${one && one.hop !== null ? `-hop-${one.hop}` : ""}`;
    fill(box.tools, view?.tools, button("JSON", () => download(`report-${id}.json`, JSON.stringify(data, null, 1), "application/json")),
      one && button("Bytes", () => download(`${name}.bin`, new Blob([bytesOf(one.bytes)]))));
    fill(place, one?.note && h("p", { class: "note" }, sentence(one.note)), view?.element);
  }

  show(cause);
  fill(box.body, data.note && h("p", { class: "note" }, sentence(data.note)), postcards?.element, place,
    h("details", { open: !data.datagrams.some((each) => each.fields.length) },
      h("summary", null, postcards ? "The path, joined from its postcards" : "Output of hopscope decode"), objectView(data.report)));
  return box.element;
}

function switchOf(report, hop) {
  const node = report.hops?.[hop]?.node_id;
  return node === undefined ? "" : `: switch ${node}`;
}

function button(text, onclick) {
  return h("button", { class: "button small", type: "button", onclick }, text);
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

function bytesOf(hex) {
  return Uint8Array.from({ length: hex.length / 2 }, (_, at) => parseInt(hex.slice(2 * at, 2 * at + 2), 16));
}
