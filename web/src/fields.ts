/** Fields of a match in the syntax of `ovs-ofctl`, what they need, and texts of flow entries. */

export interface FieldInfo {
  name: string;
  label: string;
  /** Keyword of the protocol that the packet must have; `null` for any packet. */
  needs: Protocol | null;
  example: string;
  /** What a value has to look like. */
  form: RegExp;
}

export type Protocol = "vlan" | "ip" | "ipv6" | "arp" | "tcp" | "udp" | "icmp" | "tcp6" | "udp6" | "icmp6";

/** Protocols that a keyword includes. */
const IMPLIES: Record<Protocol, Protocol[]> = {
  vlan: ["vlan"],
  ip: ["ip"],
  ipv6: ["ipv6"],
  arp: ["arp"],
  tcp: ["tcp", "ip"],
  udp: ["udp", "ip"],
  icmp: ["icmp", "ip"],
  tcp6: ["tcp6", "ipv6"],
  udp6: ["udp6", "ipv6"],
  icmp6: ["icmp6", "ipv6"],
};

/** Keywords of protocols in a text; a VLAN tag has none, and goes with all. */
export const PROTOCOLS = ["ip", "ipv6", "arp", "tcp", "udp", "icmp", "tcp6", "udp6", "icmp6"] as const;

const NUMBER = /^(0x[0-9a-f]+|[0-9]+)(\/(0x[0-9a-f]+|[0-9]+))?$/i;
const MAC = /^([0-9a-f]{1,2}:){5}[0-9a-f]{1,2}(\/([0-9a-f]{1,2}:){5}[0-9a-f]{1,2})?$/i;
const IPV4 = /^[0-9]{1,3}(\.[0-9]{1,3}){3}(\/([0-9]{1,2}|[0-9]{1,3}(\.[0-9]{1,3}){3}))?$/;
const IPV6 = /^[0-9a-f:.]*:[0-9a-f:.]*(\/[0-9a-f:.]+)?$/i;
const PORT = /^(0x[0-9a-f]+|[0-9]+|local|controller|[\w.-]+)$/i;

export const FIELDS: readonly FieldInfo[] = [
  { name: "in_port", label: "Input port", needs: null, example: "1", form: PORT },
  { name: "dl_src", label: "Ethernet source", needs: null, example: "00:00:00:00:00:01", form: MAC },
  { name: "dl_dst", label: "Ethernet destination", needs: null, example: "00:00:00:00:00:02", form: MAC },
  { name: "dl_type", label: "EtherType", needs: null, example: "0x88cc", form: NUMBER },
  { name: "dl_vlan", label: "VLAN", needs: null, example: "10", form: NUMBER },
  { name: "dl_vlan_pcp", label: "VLAN priority", needs: "vlan", example: "5", form: NUMBER },
  { name: "nw_src", label: "IPv4 source", needs: "ip", example: "10.0.0.0/24", form: IPV4 },
  { name: "nw_dst", label: "IPv4 destination", needs: "ip", example: "10.0.0.3", form: IPV4 },
  { name: "nw_tos", label: "IPv4 type of service", needs: "ip", example: "32", form: NUMBER },
  { name: "ipv6_src", label: "IPv6 source", needs: "ipv6", example: "2001:db8::/64", form: IPV6 },
  { name: "ipv6_dst", label: "IPv6 destination", needs: "ipv6", example: "2001:db8::1", form: IPV6 },
  { name: "arp_spa", label: "ARP sender", needs: "arp", example: "10.0.0.1", form: IPV4 },
  { name: "arp_tpa", label: "ARP target", needs: "arp", example: "10.0.0.2", form: IPV4 },
  { name: "arp_op", label: "ARP operation", needs: "arp", example: "1", form: NUMBER },
  { name: "tcp_src", label: "TCP source port", needs: "tcp", example: "1024", form: NUMBER },
  { name: "tcp_dst", label: "TCP destination port", needs: "tcp", example: "80", form: NUMBER },
  { name: "udp_src", label: "UDP source port", needs: "udp", example: "53", form: NUMBER },
  { name: "udp_dst", label: "UDP destination port", needs: "udp", example: "53", form: NUMBER },
  { name: "icmp_type", label: "ICMP type", needs: "icmp", example: "8", form: NUMBER },
  { name: "icmp_code", label: "ICMP code", needs: "icmp", example: "0", form: NUMBER },
];

export interface MatchField {
  name: string;
  value: string;
}

export interface FlowForm {
  table: string;
  priority: string;
  /** A protocol beyond what the fields need; empty for none. */
  protocol: string;
  fields: MatchField[];
  actions: string[];
}

export const EMPTY_FORM: FlowForm = { table: "0", priority: "200", protocol: "", fields: [], actions: ["drop"] };

function info(name: string): FieldInfo | undefined {
  return FIELDS.find((field) => field.name === name);
}

/** The keyword that a match needs for its fields, beside the chosen one; or two fields that exclude each other. */
export function protocolOf(form: FlowForm): { keyword: string; conflict: string | null } {
  let keyword = form.protocol as Protocol | "";
  // IPv6 fields turn the transport protocols into those over IPv6.
  const isIpv6 = form.fields.some((field) => info(field.name)?.needs === "ipv6") || /6$/.test(keyword);
  for (const { name } of form.fields) {
    const needs = info(name)?.needs ?? null;
    if (needs === null || needs === "vlan") continue;
    const wanted = isIpv6 && ["tcp", "udp", "icmp"].includes(needs) ? (`${needs}6` as Protocol) : needs;
    if (keyword === "" || IMPLIES[wanted].includes(keyword)) keyword = wanted;
    else if (!IMPLIES[keyword].includes(wanted)) {
      return { keyword, conflict: `${info(name)?.label ?? name} needs ${wanted}, and other fields need ${keyword}` };
    }
  }
  if (keyword !== "" && form.fields.some((field) => field.name === "dl_type")) {
    return { keyword, conflict: `EtherType cannot be combined with ${keyword}, which implies one` };
  }
  return { keyword, conflict: null };
}

/** What is wrong with a form, as sentences. */
export function problems(form: FlowForm): string[] {
  const found: string[] = [];
  const priority = Number(form.priority);
  if (!/^[0-9]+$/.test(form.priority) || priority > 65_535) found.push("The priority is a number from 0 to 65535.");
  if (!/^[0-9]+$/.test(form.table) || Number(form.table) > 254) found.push("The table is a number from 0 to 254.");
  const names = form.fields.map((field) => field.name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) found.push(`${info(twice)?.label ?? twice} is given twice.`);
  for (const { name, value } of form.fields) {
    const field = info(name);
    if (field && !field.form.test(value.trim())) found.push(`${field.label}: expected a value such as ${field.example}.`);
  }
  const { conflict } = protocolOf(form);
  if (conflict !== null) found.push(`${conflict}.`);
  if (names.includes("dl_vlan_pcp") && !names.includes("dl_vlan")) found.push("VLAN priority needs the field VLAN.");
  if (form.actions.length === 0 || form.actions.some((action) => action.trim() === "")) found.push("An action is empty.");
  if (form.actions.includes("drop") && form.actions.length > 1) found.push("Drop cannot be combined with other actions.");
  return found;
}

export function compose(form: FlowForm): string {
  const { keyword } = protocolOf(form);
  const parts = [
    ...(form.table === "0" ? [] : [`table=${form.table}`]),
    `priority=${form.priority}`,
    ...(keyword === "" ? [] : [keyword]),
    ...form.fields.map(({ name, value }) => `${name}=${value.trim()}`),
  ];
  return `${parts.join(",")},actions=${form.actions.map((action) => action.trim()).join(",")}`;
}

/** Splits at commas that are not in parentheses. */
export function splitList(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at <= text.length; at += 1) {
    const character = text[at];
    if (character === "(" || character === "[") depth += 1;
    if (character === ")" || character === "]") depth -= 1;
    if (at === text.length || (character === "," && depth === 0)) {
      parts.push(text.slice(start, at).trim());
      start = at + 1;
    }
  }
  return parts.filter((part) => part !== "");
}

function isProtocol(name: string): name is Protocol {
  return (PROTOCOLS as readonly string[]).includes(name);
}

/** The more specific of two keywords; `null` if no packet has both. */
function narrower(a: Protocol, b: Protocol): Protocol | null {
  if (IMPLIES[a].includes(b)) return a;
  return IMPLIES[b].includes(a) ? b : null;
}

/** The form of a text; `null` if it has something for which the form has no place, or something twice. */
export function parseFlow(text: string): FlowForm | null {
  const at = text.search(/\bactions?=/);
  if (at < 0) return null;
  const form: FlowForm = { ...EMPTY_FORM, priority: "32768", fields: [], actions: splitList(text.slice(text.indexOf("=", at) + 1)) };
  const seen = new Set<string>();
  for (const part of splitList(text.slice(0, at).replace(/\s+/g, ","))) {
    const equals = part.indexOf("=");
    const name = equals < 0 ? part : part.slice(0, equals);
    const value = equals < 0 ? "" : part.slice(equals + 1);
    if (name === "priority" || name === "table") {
      if (seen.has(name)) return null;
      seen.add(name);
    }
    if (equals < 0 && isProtocol(name)) {
      const protocol = form.protocol === "" ? name : narrower(form.protocol as Protocol, name);
      if (protocol === null) return null;
      form.protocol = protocol;
    } else if (name === "priority") form.priority = value;
    else if (name === "table") form.table = value;
    else if (equals > 0 && info(name)) form.fields.push({ name, value });
    else return null;
  }
  if (form.actions.length === 0 || protocolOf(form).conflict !== null) return null;
  // The keyword that the fields need anyway is not a choice.
  const without = { ...form, protocol: "" };
  return protocolOf(without).keyword === form.protocol ? without : form;
}
