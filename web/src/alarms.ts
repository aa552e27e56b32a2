/** What needs attention, from events and states. */
import type { EventDocument, Quarantine, StaticEntry, StoreError, Topology } from "./documents";
import { clean, count, mainAddress } from "./format";
import { hostHref, href } from "./router";
import { switchName } from "./switch-names";
import { eventText } from "./timeline";

/** How long an address conflict is shown after the last event about it. */
const CONFLICT_S = 600;

export interface Alarm {
  kind: "store" | "blocked" | "conflict" | "refused" | "quarantine" | "drained";
  text: string;
  /** Where it is, if it is at a switch. */
  dpid: string | null;
  address: string;
}

function key(event: EventDocument): string {
  return [event.at?.dpid, event.at?.port, event.host?.mac].join(" ");
}

/** Events of which the latest per place counts. */
function latest(events: readonly EventDocument[], kinds: string[]): EventDocument[] {
  const found = new Map<string, EventDocument>();
  for (const event of events) if (kinds.includes(event.kind)) found.set(key(event), event);
  return [...found.values()];
}

function ofEvents(events: readonly EventDocument[], nowS: number): Alarm[] {
  const conflicts = latest(events, ["address-conflict"]).filter((event) => nowS - event.at_unix_s < CONFLICT_S);
  return conflicts.map((event) => ({
    kind: "conflict",
    text: `Address conflict: ${clean(eventText(event), 120)}`,
    dpid: event.at?.dpid ?? null,
    address: hostHref(event.host ?? { mac: "", vlan: 0 }),
  }));
}

function ofBlockedPorts(topology: Topology | null): Alarm[] {
  return (topology?.blocked_ports ?? []).flatMap((it): Alarm[] => {
    const at = topology?.switches[it.switch];
    // Others are blocked by the choice of a port for a segment, which is as it should be.
    if (it.reason !== "packet-ins" || at === undefined) return [];
    const port = `${switchName(at)}:${it.port}`;
    const sender = it.host === null ? `Port ${port}` : `Host ${it.host} at port ${port}`;
    // Without meters, its switch drops everything for a time.
    const more = it.packets_per_s_max === null ? "too many" : `more than ${count(it.packets_per_s_max)}`;
    return [{ kind: "blocked", text: `${sender} sends ${more} packet-ins per second and is blocked or limited`, dpid: at.dpid, address: href("switch", at.dpid) }];
  });
}

/** What is wrong with the store, and what to do. */
export function storeText({ operation, message }: StoreError): string {
  const reason = clean(message, 200);
  return operation === "open"
    ? `The store cannot be opened: ${reason}. Static entries, names, quarantined hosts and drained links are not known, and cannot be changed. Run sluice doctor on the machine of the controller, repair the file, and restart the controller.`
    : `The last change could not be stored: ${reason}. Run sluice doctor on the machine of the controller, free space on its disk or repair the state directory, and make the change again.`;
}

function ofStore(error: StoreError | null): Alarm[] {
  return error === null ? [] : [{ kind: "store", text: storeText(error), dpid: null, address: href("entries") }];
}

/** Whether nothing that the map or the list of alarms shows is different. */
export function areSame(a: readonly Alarm[], b: readonly Alarm[]): boolean {
  return a.length === b.length && a.every((alarm, at) => alarm.text === b[at]?.text && alarm.dpid === b[at]?.dpid);
}

export interface Sources {
  storeError: StoreError | null;
  topology: Topology | null;
  events: readonly EventDocument[];
  refused: readonly StaticEntry[];
  quarantines: readonly Quarantine[];
}

export function alarms({ storeError, topology, events, refused, quarantines }: Sources, nowS: number): Alarm[] {
  const drained: Alarm[] = [];
  for (const link of topology?.links ?? []) {
    const [from, to] = [topology?.switches[link.from], topology?.switches[link.to]];
    // Each direction is listed: one alarm is enough.
    if (!link.is_drained || from === undefined || to === undefined || from.dpid > to.dpid) continue;
    drained.push({
      kind: "drained",
      text: `Link ${switchName(from)}:${link.from_port} to ${switchName(to)}:${link.to_port} is out of service`,
      dpid: null,
      address: href("link", from.dpid, link.from_port),
    });
  }
  const entries = refused.map((entry): Alarm => ({
    kind: "refused",
    text: `Static entry ${clean(entry.name)} is refused: ${clean(entry.reason ?? "no reason", 120)}`,
    dpid: null,
    address: href("entry", entry.name),
  }));
  const hosts = quarantines.map((it): Alarm => ({
    kind: "quarantine",
    text: `Host ${mainAddress(it.addresses) ?? it.mac} is in quarantine`,
    dpid: it.at?.dpid ?? null,
    address: href("host", it.mac),
  }));
  return [...ofStore(storeError), ...ofBlockedPorts(topology), ...ofEvents(events, nowS), ...entries, ...hosts, ...drained];
}
