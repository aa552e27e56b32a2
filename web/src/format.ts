/** Numbers, times and names as people read them. */

/** Longest text of a switch, port or host that is shown in a line. */
const NAME_LENGTH_MAX = 64;

/** Characters that change the direction of the text around them, or are not visible. */
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A text that a switch or an operator has given: one line, without control characters, not too long. */
export function clean(text: string, max = NAME_LENGTH_MAX): string {
  const visible = text.slice(0, max * 4).replace(INVISIBLE, "\ufffd");
  const characters = [...visible];
  return characters.length > max || text.length > max * 4 ? `${characters.slice(0, max - 1).join("")}…` : visible;
}

/** A datapath id without leading zeros. */
export function shortDpid(dpid: string): string {
  return dpid.replace(/^0+(?=.)/, "");
}

/** Of the addresses of a host, the one that names it: an IPv4 address, or else a global IPv6 address, or else a link-local one. */
export function mainAddress(addresses: readonly string[]): string | undefined {
  const rank = (address: string) => (!address.includes(":") ? 0 : /^fe[89ab]/i.test(address) ? 2 : 1);
  return [...addresses].sort((a, b) => rank(a) - rank(b))[0];
}

/** The name of a host if it has one, or else its main address. */
export function hostName(host: { mac: string; name: string | null; addresses: readonly string[] }): string {
  return clean(host.name ?? mainAddress(host.addresses) ?? host.mac);
}

/** Identifies a host on the page: the same Ethernet address in another VLAN is another host. */
export function hostId({ mac, vlan }: { mac: string; vlan: number }): string {
  return vlan === 0 ? mac : `${mac} ${vlan}`;
}

const PREFIXES = ["", "k", "M", "G", "T", "P"];

function scaled(value: number, base: number): string {
  let unit = 0;
  while (value >= base && unit < PREFIXES.length - 1) {
    value /= base;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${PREFIXES[unit] ?? ""}`;
}

export function bits(rate: number | null | undefined): string {
  return rate === null || rate === undefined ? "–" : `${scaled(rate, 1000)}bit/s`;
}

export function bytes(count: number | null | undefined): string {
  return count === null || count === undefined ? "–" : `${scaled(count, 1024).replace(/ k$/, " K").replace(/ ([KMGTP])$/, " $1i")}B`;
}

export function perSecond(rate: number | null | undefined): string {
  return rate === null || rate === undefined ? "–" : `${scaled(rate, 1000).trim()}/s`;
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

/** A number of things: `1 host`, `2 hosts`. The plural is that of the last argument if it is not regular. */
export function countOf(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** The sum of two counters, one of which the switch may not count; `null` if it counts neither. */
export function total(a: number | null | undefined, b: number | null | undefined): number | null {
  return (a ?? null) === null && (b ?? null) === null ? null : (a ?? 0) + (b ?? 0);
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 1e-3) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 0.1 ? 1 : 0)} ms`;
  return `${value.toFixed(1)} s`;
}

/** Local time of the day, or date and time if it is not of today. */
export function time(unixS: number, now = Date.now()): string {
  const at = new Date(unixS * 1000);
  const clock = at.toTimeString().slice(0, 8);
  if (at.toDateString() === new Date(now).toDateString()) return clock;
  const [year, month, day] = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((part) => String(part).padStart(2, "0"));
  return `${year}-${month}-${day} ${clock}`;
}

export function age(unixS: number, now = Date.now()): string {
  const passed = Math.max(0, Math.round(now / 1000 - unixS));
  if (passed < 60) return `${passed} s`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min`;
  if (passed < 86_400) return `${Math.floor(passed / 3600)} h ${Math.floor((passed % 3600) / 60)} min`;
  return `${Math.floor(passed / 86_400)} d`;
}

/** Classes of load of links: the lower bounds as shares of their speed, and in bits per second where that is not known. */
const LOAD_SHARES = [0.01, 0.1, 0.25, 0.5, 0.75];
const LOAD_RATES = [1e4, 1e6, 1e7, 1e8, 1e9];
export const LOAD_LABELS = {
  shares: ["below 1 %", "≥ 1 %", "≥ 10 %", "≥ 25 %", "≥ 50 %", "≥ 75 %"],
  rates: ["idle", "≥ 10 kbit/s", "≥ 1 Mbit/s", "≥ 10 Mbit/s", "≥ 100 Mbit/s", "≥ 1 Gbit/s"],
};

export function loadClass(rate: number | null, speed: number | null): number {
  if (rate === null) return 0;
  const [value, bounds] = speed === null ? [rate, LOAD_RATES] : [rate / speed, LOAD_SHARES];
  return bounds.filter((bound) => value >= bound).length;
}

/** A rate, and its share of the speed if that is known. */
export function load(rate: number | null | undefined, speed: number | null | undefined): string {
  if (rate === null || rate === undefined || speed === null || speed === undefined) return bits(rate);
  const share = (100 * rate) / speed;
  // A share that would be shown as 0.0 % is left out.
  if (share < 0.1) return bits(rate);
  return `${bits(rate)} (${share < 10 ? share.toFixed(1) : Math.round(share)} %)`;
}
