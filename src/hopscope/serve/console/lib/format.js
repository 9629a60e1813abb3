/** Figures, times and places as people read them. The same rules as `hopscope.present.units`. */

/** A count in at most five characters: 980, 12.3k, 4.56M. */
export function si(value) {
  const number = Number(value);
  if (!Number.isFinite(number)) return "–";
  for (const [limit, divisor, suffix] of [[1e3, 1, ""], [1e6, 1e3, "k"], [1e9, 1e6, "M"], [1e12, 1e9, "G"]]) {
    if (Math.abs(number) < limit * 0.9995) {
      const scaled = number / divisor;
      if (!suffix && Number.isInteger(scaled)) return String(scaled);
      return three(scaled) + suffix;
    }
  }
  return (number / 1e12).toPrecision(3) + "T";
}

/** With three digits: 9.99, 10.0, 100. */
function three(value) {
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

/** A time with its unit: 640 ns, 12.3 µs, 4.56 ms. */
export function duration(ns) {
  const number = Number(ns);
  if (!Number.isFinite(number)) return "–";
  for (const [limit, divisor, unit] of [[1e3, 1, "ns"], [1e6, 1e3, "µs"], [1e9, 1e6, "ms"], [60e9, 1e9, "s"]]) {
    if (Math.abs(number) < limit * 0.9995) {
      return `${divisor === 1 ? number.toFixed(0) : three(number / divisor)} ${unit}`;
    }
  }
  return span(number / 1e9);
}

/** A span of seconds: 45 s, 12 min, 5 h, 3 d. */
export function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** Bytes with a binary prefix: 512 B, 3.40 MiB. */
export function bytes(value) {
  let number = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(number) < 1000) return `${unit === "B" ? number.toFixed(0) : three(number)} ${unit}`;
    number /= 1024;
  }
  return `${three(number)} TiB`;
}

/** A share: 0.0123 is 1.23 %. */
export function percent(share) {
  const value = 100 * Number(share);
  if (!Number.isFinite(value)) return "–";
  const digits = value !== 0 && Math.abs(value) < 10 ? 2 : value % 1 ? 1 : 0;
  return `${value.toFixed(digits)} %`;
}

/** A value with the unit that the API gives: "ns", "bytes", "ppm" (share), or null: as the switch sends it. */
export function amount(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "ns") return duration(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "ppm") return percent(Number(value) / 1e6);
  return unit ? `${si(value)} ${unit}` : si(value);
}

/** A line of the API as a sentence. A name in front, as in worker-0, stays as it is. */
export function sentence(line) {
  const text = /^[a-z]+[ ,]/.test(line) ? line[0].toUpperCase() + line.slice(1) : line;
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** snake_case of the API in words. */
export function words(name) {
  return String(name ?? "").replaceAll("_", " ");
}

const MS = /^(\d+-\d+-\d+T\d+:\d+:\d+)(?:\.(\d+))?Z$/;
/** Milliseconds since 1970, with a fraction, of RFC 3339 text. */
export function ms(text) {
  const found = MS.exec(text);
  return found ? Date.parse(found[1] + "Z") + Number("0." + (found[2] ?? 0)) * 1000 : Date.parse(text);
}

/** "local" or "utc": the time zone of all times. Kept in this browser. */
export function zone() {
  return localStorage.getItem("hopscope-zone") ?? "local";
}

export function setZone(name) {
  localStorage.setItem("hopscope-zone", name);
}

/** UTC minus local time of the chosen zone at a time, in milliseconds. */
export function behindUtc(at) {
  return zone() === "utc" ? 0 : new Date(at).getTimezoneOffset() * 60_000;
}

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const DAY = { year: "numeric", month: "2-digit", day: "2-digit" };
/** Formatters by zone for these options: creating one takes much longer than using it. */
const FORMATS = new Map([[CLOCK, {}], [DAY, {}]]);

function formatOf(options) {
  const name = zone();
  const timeZone = name === "utc" ? "UTC" : undefined;
  return (FORMATS.get(options)[name] ??= new Intl.DateTimeFormat("sv-SE", { ...options, timeZone }));
}

function inZone(options, at) {
  return formatOf(options).format(at);
}

/** Time of day, with tenths; the date in front if it is not today. `digits`: of the second. */
export function clock(time, digits = 1) {
  const at = typeof time === "number" ? time : ms(time);
  if (!Number.isFinite(at)) return "–";
  const rest = digits ? "." + String(Math.floor(at % 1000)).padStart(3, "0").slice(0, digits) : "";
  const today = inZone(DAY, Date.now()) === inZone(DAY, at);
  return (today ? "" : inZone(DAY, at) + " ") + inZone(CLOCK, at) + rest;
}

/** The date, as 2026-11-29. */
export function date(at) {
  return inZone(DAY, at);
}

/** Date and time in full, with the zone: for titles and details. */
export function moment(time) {
  const at = typeof time === "number" ? time : ms(time);
  const rest = typeof time === "string" ? (MS.exec(time)?.[2] ?? "") : "";
  return `${inZone(DAY, at)} ${inZone(CLOCK, at)}${rest ? "." + rest : ""} ${formatOf(DAY).resolvedOptions().timeZone}`;
}

const RFC_3339 = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;
/** A line of the server, with its times as `clock` has them. */
export function inLocalTime(line) {
  return String(line ?? "").replace(RFC_3339, (time) => clock(time, 0));
}

/** How long ago: "12 s ago". */
export function ago(time, nowMs = Date.now()) {
  const at = typeof time === "number" ? time : ms(time);
  return Number.isFinite(at) ? `${span(Math.max(0, nowMs - at) / 1000)} ago` : "–";
}

/** Name of a switch, or its number. `node`: {id, name} of the API. */
export function nodeName(node) {
  return node ? (node.name ?? String(node.id)) : "unknown switch";
}

/** Name of a port, or its number. */
export function portName(port) {
  return port ? (port.name ?? `port ${port.id}`) : "";
}

/** " q2", or " buffer 2", which the ports of a switch share; of a place without either: "". */
export function queueName(queue, metric) {
  if (queue === null || queue === undefined) return "";
  return metric === "buffer_occupancy" ? ` buffer ${queue}` : ` q${queue}`;
}

/** "10.0.0.1:80 → 10.0.0.2:443 TCP" */
export function flowText(flow) {
  if (!flow) return "";
  const end = (address, port) => (port ? (address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`) : address);
  return `${end(flow.src, flow.sport)} → ${end(flow.dst, flow.dport)} ${protocol(flow.proto)}`;
}

const PROTOCOLS = { 1: "ICMP", 6: "TCP", 17: "UDP", 47: "GRE", 58: "ICMPv6", 132: "SCTP" };
export function protocol(number) {
  return PROTOCOLS[number] ?? `protocol ${number}`;
}
