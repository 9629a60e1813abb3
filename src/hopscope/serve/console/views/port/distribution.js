/** Distributions of a port: quantiles by time, and the histogram of the whole range with its quantiles. */

import { h, fill } from "../../lib/dom.js";
import { param, set } from "../../lib/address.js";
import { exports } from "../../lib/export.js";
import { amount, ms, si } from "../../lib/format.js";
import { empty, panel, tabs, trouble } from "../../lib/panel.js";
import { choose } from "../../lib/range.js";
import { barChart } from "../../charts/bars.js";
import { legend, lineChart } from "../../charts/line.js";
import { follow } from "../../lib/range_query.js";

const MEASURES = [["hop_latency", "Hop latency"], ["queue_occupancy", "Queue"], ["link_utilization", "Link"]];
const LINES = [[0.5, "p50", "--s1"], [0.9, "p90", "--s3"], [0.99, "p99", "--s2"]];

export function distributionPanel(node, port) {
  const chosen = () => (MEASURES.some(([name]) => name === param("measure")) ? param("measure") : "hop_latency");
  const choice = tabs("Measure", MEASURES, chosen(), (measure) => set({ measure: measure === "hop_latency" ? null : measure }));
  const name = `port-${node.id}-${port.id}`;
  let answer = null;
  let lines = null;
  const bars = barChart({ label: "Distribution of values; arrow keys move between the bars", height: 190 });
  const over = panel("Quantiles by time", { tools: [choice.element, exports(`${name}-quantiles`, { table: () => lines?.export() ?? { names: [], rows: [] }, json: () => answer?.items, png: () => lines.png() })] });
  const whole = panel("Distribution", { note: "of the whole range", tools: [exports(`${name}-distribution`, { table: bars.export, json: () => answer?.whole, png: bars.png })] });
  const key = legend([...LINES.map(([, title, colour]) => ({ name: title, colour })), { name: "highest", colour: "--s6" }]);

  function draw(found) {
    answer = found;
    if (!found.whole) return nothing(empty("No distribution in this time range.", "To count the values of every packet, set:", "[distributions]\nenabled = true"));
    if (!lines || lines.unit !== found.unit) {
      lines?.end();
      lines = Object.assign(lineChart({ label: "Quantiles over time", unit: found.unit, height: 172, sync: "port", onRange: (from, to) => choose(Math.floor(from), Math.ceil(to)) }), { unit: found.unit });
    }
    fill(over.body, lines.element, key);
    fill(whole.body, bars.element);
    const middle = (each) => (ms(each.since) + ms(each.until)) / 2;
    const series = LINES.map(([q, title, colour]) => ({ name: title, colour, points: found.items.map((each) => [middle(each), quantile(each, q)?.estimate ?? null]),
      bounds: q === 0.99 ? found.items.map((each) => [middle(each), Number(quantile(each, q).lower), Number(quantile(each, q).upper ?? quantile(each, q).lower)]) : undefined }));
    series.push({ name: "highest", colour: "--s6", points: found.items.map((each) => [middle(each), each.highest]) });
    lines.set({ series, from: ms(found.since), to: Math.min(ms(found.until), Date.now()), log: true });
    over.note(`of all packets, by period · bounds of p99 shaded`);
    const { bins, quantiles, count, mean, highest } = found.whole;
    bars.set({ bars: bins.map((each) => [Number(each.lower), Number(each.upper ?? 2 * Number(each.lower)) + 1, Number(each.count)]), unit: found.unit,
      lines: quantiles.filter((each) => each.estimate !== null).map((each) => ({ at: each.estimate, text: `p${+(100 * each.q).toFixed(1)} ${amount(Math.round(each.estimate), found.unit)}` })) });
    whole.note(`${si(count)} values · mean ${amount(Math.round(mean), found.unit)} · highest ${amount(highest, found.unit)} · both axes logarithmic`);
  }

  function nothing(content) {
    fill(over.body, content);
    fill(whole.body, h("span", { class: "faint" }, "–"));
    over.note("");
    whole.note("");
  }

  return {
    elements: [over.element, whole.element],
    begin({ queue }) {
      choice.draw(chosen());
      const asked = { measure: chosen(), node: node.id, port: port.id, queue: chosen() === "queue_occupancy" ? queue : null, buckets: 60 };
      const end = follow("/distributions/history", asked, (data, error) => (error ? nothing(trouble(error)) : draw(data)));
      return () => {
        end();
        lines?.end();
      };
    },
  };
}

function quantile(each, q) {
  return each.quantiles.find((one) => one.q === q);
}
