/** What the page makes of the network that the API describes. */
import type { Topology } from "./documents";

/** The network without the names that several switches have, such as a description that is the same for all: their datapath ids tell them apart. */
export function withDistinctNames(network: Topology): Topology {
  const counts = new Map<string | null, number>();
  for (const { name } of network.switches) counts.set(name, (counts.get(name) ?? 0) + 1);
  const switches = network.switches.map((it) => (counts.get(it.name) === 1 ? it : { ...it, name: null }));
  return { ...network, switches };
}
