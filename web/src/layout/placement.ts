/** Where the switches are on the map. Positions stay while other views are shown, and are computed in a thread of their own. */
import { extended, layout, type LayoutInput, type LayoutName, type Point } from ".";
import type { Topology } from "../documents";
import { checkPage } from "../live";
import { Value } from "../store";

/** While links are being found, the map is arranged again each time there are so many more. */
const MORE_LINKS = 1.3;

export interface Placement {
  name: LayoutName;
  /** The network that was arranged; `null` until one was. */
  network: Topology | null;
  points: Map<string, Point>;
  /** Links of the network when all of it was arranged. */
  links: number;
}

interface Wanted {
  network: Topology;
  name: LayoutName;
}

export const placement = new Value<Placement>({ name: "auto", network: null, points: new Map(), links: 0 });

let worker: Worker | null = null;
let running: Wanted | null = null;
/** What is arranged next: the newest wish replaces earlier ones. */
let next: Wanted | null = null;

/** Whether every switch of a network has a position. */
export function covers({ points }: Placement, network: Topology): boolean {
  return network.switches.every((it) => points.has(it.dpid));
}

/** Places the switches of a network: a few new ones near their neighbours, or all of them anew if that is asked for, or many are new. */
export function arrange(network: Topology, name: LayoutName, anew = false): void {
  const now = placement.get();
  const isGrown = network.links.length > now.links * MORE_LINKS;
  if (!anew && !isGrown && name === now.name) {
    if (network.switches.length === now.points.size && covers(now, network)) return;
    const points = extended(network, now.points);
    if (points !== null) return placement.set({ ...now, network, points });
  }
  next = { network, name };
  if (running === null) run();
}

function run(): void {
  running = next;
  next = null;
  if (running === null) return;
  if (worker === null) {
    worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Map<string, Point>>) => {
      if (running !== null) done(running, data);
    };
    worker.onerror = failed;
    worker.onmessageerror = failed;
  }
  worker.postMessage([essence(running.network), running.name]);
}

/** The thread cannot be used: its program may belong to an earlier version of the page, and be gone. The next network is tried with a new thread. */
function failed(): void {
  worker?.terminate();
  worker = null;
  void checkPage();
  const wanted = running;
  running = null;
  if (wanted !== null) done(wanted, layout(essence(wanted.network), wanted.name));
}

function done(wanted: Wanted, points: Map<string, Point>): void {
  run();
  placement.set({ ...wanted, points, links: wanted.network.links.length });
}

/** What the layout uses of a network: copying it to the other thread takes time. */
function essence(network: Topology): LayoutInput {
  return {
    switches: network.switches.map(({ dpid, hosts }) => ({ dpid, hosts })),
    links: network.links.filter((link) => link.from < link.to).map(({ from, to }) => ({ from, to })),
  };
}
