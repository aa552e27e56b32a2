/** The switches and links of a map, each pair of switches once. */

/** What layouts use of a topology. */
export interface LayoutInput {
  switches: readonly { dpid: string; hosts: number }[];
  links: readonly { from: number; to: number }[];
}

export interface Graph {
  /** Datapath ids, in order. */
  ids: string[];
  /** Places of neighbours, without repetition. */
  neighbours: number[][];
  /** Whether a switch has hosts. */
  hasHosts: boolean[];
}

export interface Point {
  x: number;
  y: number;
}

export function graphOf(topology: LayoutInput): Graph {
  const sets = topology.switches.map(() => new Set<number>());
  for (const link of topology.links) {
    const [from, to] = [sets[link.from], sets[link.to]];
    if (from === to || from === undefined || to === undefined) continue;
    from.add(link.to);
    to.add(link.from);
  }
  return {
    ids: topology.switches.map((it) => it.dpid),
    neighbours: sets.map((set) => [...set].sort((a, b) => a - b)),
    hasHosts: topology.switches.map((it) => it.hosts > 0),
  };
}

/** Numbers of links to the nearest of `from`; `Infinity` where there is no path. */
export function distances(graph: Graph, from: number[]): number[] {
  const found = graph.ids.map(() => Infinity);
  const queue = [...from];
  for (const at of from) found[at] = 0;
  for (let head = 0; head < queue.length; head += 1) {
    const at = queue[head] as number;
    for (const next of graph.neighbours[at] ?? []) {
      if (found[next] !== Infinity) continue;
      found[next] = (found[at] as number) + 1;
      queue.push(next);
    }
  }
  return found;
}

/** Connected parts, the largest first. */
export function parts(graph: Graph): number[][] {
  const seen = graph.ids.map(() => false);
  const all: number[][] = [];
  graph.ids.forEach((_, start) => {
    if (seen[start]) return;
    const part = [start];
    seen[start] = true;
    for (let head = 0; head < part.length; head += 1) {
      for (const next of graph.neighbours[part[head] as number] ?? []) {
        if (seen[next]) continue;
        seen[next] = true;
        part.push(next);
      }
    }
    all.push(part);
  });
  return all.sort((a, b) => b.length - a.length);
}

/** The part of a graph that has only some switches. */
export function subgraph(graph: Graph, members: number[]): Graph {
  const place = new Map(members.map((member, at) => [member, at]));
  return {
    ids: members.map((member) => graph.ids[member] as string),
    neighbours: members.map((member) => (graph.neighbours[member] ?? []).flatMap((next) => place.get(next) ?? [])),
    hasHosts: members.map((member) => graph.hasHosts[member] ?? false),
  };
}
