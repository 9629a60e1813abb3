/** Names and values of counters as people read them. */

import { amount, percent, si } from "../../lib/format.js";

/** Name with its label, as in /metrics: hopscope_events_total{kind="drop"}. */
export function counterName(each) {
  const label = Object.entries(each.label ?? {}).map(([name, value]) => `${name}="${value}"`).join(",");
  return label ? `${each.name}{${label}}` : each.name;
}

/** The value in the unit that the name ends with. */
export function valueText(each, value = each.value) {
  if (/_seconds(_total)?$/.test(each.name)) return amount(Number(value) * 1e9, "ns");
  if (/_bytes(_total)?$/.test(each.name)) return amount(value, "bytes");
  if (/_ratio$/.test(each.name)) return percent(value);
  return si(value);
}
