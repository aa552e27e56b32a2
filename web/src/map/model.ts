/** What the map draws: switches, links and hosts with their positions. */
import type { Alarm } from "../alarms";
import type { Host, Topology } from "../documents";
import { hostId, hostName, loadClass } from "../format";
import type { Point } from "../layout";
import { switchName } from "../switch-names";

export interface Node extends Point {
  id: string;
  label: string;
  hosts: number;
  alarms: number;
}

export interface Edge {
  /** Switch and port that come first. */
  id: string;
  a: number;
  b: number;
  /** Port at `a`. */
  port: number;
  portB: number;
  /** That of the direction with the larger load. */
  bitsPerS: number | null;
  speed: number | null;
  load: number;
  isDrained: boolean;
  /** Place among the links of the same two switches: -1, 0, 1, … */
  lane: number;
}

export interface HostNode extends Point {
  /** Ethernet address, and VLAN if there is one. */
  id: string;
  label: string;
  at: number;
  isQuarantined: boolean;
}

export interface MapModel {
  nodes: Node[];
  edges: Edge[];
  hosts: HostNode[];
}

/** Distance of hosts from their switch, and between their circles. */
const HOST_RADIUS = 34;
const HOST_RING = 14;

/** Of two directions, which have the same speed or none that is known, the one with the larger share has the larger load. */
function share(rate: number | null, speed: number | null): number {
  return rate === null ? -1 : rate / (speed ?? 1);
}

/** One line for both directions of each cable. */
function edges(topology: Topology): Edge[] {
  const found = new Map<string, Edge>();
  const lanes = new Map<string, number>();
  for (const link of topology.links) {
    if (topology.switches[link.from] === undefined || topology.switches[link.to] === undefined) continue;
    const isForward = link.from < link.to || (link.from === link.to && link.from_port < link.to_port);
    const [a, b] = isForward ? [link.from, link.to] : [link.to, link.from];
    const [port, portB] = isForward ? [link.from_port, link.to_port] : [link.to_port, link.from_port];
    const id = `${topology.switches[a]?.dpid}/${port}`;
    const known = found.get(id);
    if (known && known.b === b && known.portB === portB) {
      if (share(link.bits_per_s, link.speed_bits_per_s) > share(known.bitsPerS, known.speed)) {
        [known.bitsPerS, known.speed] = [link.bits_per_s, link.speed_bits_per_s];
        known.load = loadClass(known.bitsPerS, known.speed);
      }
      continue;
    }
    const pair = `${a} ${b}`;
    const lane = lanes.get(pair) ?? 0;
    lanes.set(pair, lane + 1);
    const load = loadClass(link.bits_per_s, link.speed_bits_per_s);
    found.set(id, { id, a, b, port, portB, bitsPerS: link.bits_per_s, speed: link.speed_bits_per_s, load, isDrained: link.is_drained, lane });
  }
  for (const edge of found.values()) edge.lane -= ((lanes.get(`${edge.a} ${edge.b}`) ?? 1) - 1) / 2;
  return [...found.values()];
}

/** Hosts around their switches, on the side where few links are. */
function hostNodes(hosts: readonly Host[], nodes: Node[], lines: Edge[]): HostNode[] {
  const places = new Map(nodes.map((node, at) => [node.id, at]));
  const free = nodes.map(() => ({ x: 0, y: 0 }));
  for (const edge of lines) {
    const [a, b] = [nodes[edge.a] as Node, nodes[edge.b] as Node];
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const [dx, dy] = [(b.x - a.x) / length, (b.y - a.y) / length];
    const [freeA, freeB] = [free[edge.a] as Point, free[edge.b] as Point];
    freeA.x -= dx;
    freeA.y -= dy;
    freeB.x += dx;
    freeB.y += dy;
  }
  const used = nodes.map(() => 0);
  const counts = nodes.map(() => 0);
  for (const host of hosts) {
    const at = places.get(host.at.dpid);
    if (at !== undefined) counts[at] = (counts[at] as number) + 1;
  }
  return hosts.flatMap((host) => {
    const at = places.get(host.at.dpid);
    if (at === undefined) return [];
    const node = nodes[at] as Node;
    const index = used[at] as number;
    used[at] = index + 1;
    const perRing = 8;
    const ring = Math.floor(index / perRing);
    const inRing = Math.min(perRing, (counts[at] as number) - ring * perRing);
    const towards = free[at] as Point;
    const middle = Math.hypot(towards.x, towards.y) < 0.3 ? Math.PI / 2 : Math.atan2(towards.y, towards.x);
    const angle = middle + ((index % perRing) - (inRing - 1) / 2) * 0.42;
    const radius = HOST_RADIUS + ring * HOST_RING;
    return [{ id: hostId(host), label: hostName(host), at, isQuarantined: host.is_quarantined, x: node.x + radius * Math.cos(angle), y: node.y + radius * Math.sin(angle) }];
  });
}

export function mapModel(topology: Topology, points: Map<string, Point>, alarms: readonly Alarm[], hosts: readonly Host[]): MapModel {
  const counts = new Map<string, number>();
  for (const alarm of alarms) if (alarm.dpid !== null) counts.set(alarm.dpid, (counts.get(alarm.dpid) ?? 0) + 1);
  const nodes = topology.switches.map((it): Node => {
    const point = points.get(it.dpid) ?? { x: 0, y: 0 };
    return { id: it.dpid, label: switchName(it), hosts: it.hosts, alarms: counts.get(it.dpid) ?? 0, x: point.x, y: point.y };
  });
  const lines = edges(topology);
  return { nodes, edges: lines, hosts: hostNodes(hosts, nodes, lines) };
}
