/** The cluster as this member sees it. */

import { h, fill } from "../../lib/dom.js";
import { exports } from "../../lib/export.js";
import { ago } from "../../lib/format.js";
import { empty, panel } from "../../lib/panel.js";
import { table } from "../../lib/table.js";

const lasting = (ns) => ago(Number(ns) / 1e6).replace(" ago", "");

const isGood = (each) => each.there && each.ready;
const stateText = (each) => (!each.there ? "missing" : each.ready ? each.state : `${each.state}, not ready`);

export function clusterPart() {
  const about = panel("Cluster");
  const rows = table({
    label: "Members", key: (each) => each.name, mood: (each) => (isGood(each) ? "" : "bad"), sort: "name", empty: "No member is known yet.",
    columns: [
      { name: "name", title: "Member", cell: (each) => h("b", null, each.name), value: (each) => each.name },
      { name: "state", title: "State", phone: "plain", cell: (each) => h("span", { class: `chip dot ${isGood(each) ? "good" : "bad"}` }, stateText(each)), value: stateText },
      { name: "revision", title: "Configuration", number: true, cell: (each) => h("span", { title: each.revision_problem || null, class: each.revision_problem ? "bad" : null }, String(each.revision ?? "–")), value: (each) => each.revision },
      { name: "version", title: "Version", cell: (each) => each.version ?? "–" },
      { name: "api", title: "Console", cell: (each) => (/^https?:\/\//.test(each.address ?? "") ? h("a", { href: each.address, rel: "noreferrer" }, each.address) : "–"), value: (each) => each.address },
    ],
  });
  const box = panel("Members", { tools: exports("members", { table: rows.export }) });
  const gone = h("p", { class: "note", hidden: true });
  fill(box.body, rows.element, gone);
  return { elements: [about.element, box.element], update({ cluster }) {
    box.element.hidden = !cluster;
    if (!cluster) return void fill(about.body, empty("This collector is not in a cluster.", "Several collectors can share configuration, queries and history through NATS:", "[cluster]\nname = \"dc1\"\nnats = [\"nats://127.0.0.1:4222\"]"));
    const good = cluster.state === "joined" && !cluster.problem;
    fill(about.body, h("dl", { class: "facts" }, h("dt", null, "name"), h("dd", null, cluster.cluster), h("dt", null, "this member"), h("dd", null, cluster.member), h("dt", null, "NATS"), h("dd", null, h("code", null, cluster.nats)),
      h("dt", null, "state"), h("dd", null, h("span", { class: `chip dot ${good ? "good" : "warn"}` }, cluster.state === "away" ? "local only" : cluster.state), ` for ${lasting(cluster.since_ns)}`),
      h("dt", null, "configuration"), h("dd", null, `revision ${cluster.configuration?.revision ?? "–"}, newest ${cluster.configuration?.newest ?? "–"}`),
      cluster.problem && [h("dt", null, "problem"), h("dd", { class: "bad" }, cluster.problem, h("b", null, " This collector continues alone; run hopscope cluster status for details."))]));
    const names = cluster.missing.filter((each) => each.state !== "drained").map((each) => each.name);
    gone.hidden = !names.length;
    fill(gone, "A missing member keeps its share of keys and is listed in answers. Start it again, or remove it permanently: ", h("code", null, `hopscope cluster forget ${names[0]}`), ".");
    rows.update([...cluster.members.map((each) => ({ ...each, there: true })), ...cluster.missing.map((each) => ({ ...each, there: false }))]);
  } };
}
