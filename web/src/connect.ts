/** Where the page was loaded from, and the commands that connect switches to the controller there. */

/** The port on which the controller accepts switches, unless `listen` of its configuration says otherwise. */
export const OPENFLOW_PORT = 6653;

/** Whether the host in the address of a page is the machine of the browser. */
export function isLoopback(hostname: string): boolean {
  return /^((.+\.)?localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}

/** Whether others can read what the page sends: it was loaded from another machine without TLS. */
export function isExposed({ protocol, hostname }: Pick<Location, "protocol" | "hostname">): boolean {
  return protocol === "http:" && !isLoopback(hostname);
}

/** The address of the controller for switches: that of the page, but 127.0.0.1 for `localhost`, since Open vSwitch may be built without a resolver for names. */
export function controllerAddress(hostname: string): string {
  return isLoopback(hostname) ? "127.0.0.1" : hostname;
}

export interface ConnectCommands {
  emulation: string;
  mininet: string;
  openVswitch: string;
}

/** Commands that connect switches to the controller that has served a page of this host. */
export function connectCommands(hostname: string): ConnectCommands {
  const address = controllerAddress(hostname);
  // Without the option, emulated switches connect to the machine on which they run.
  const controller = isLoopback(hostname) ? "" : ` --controller ${address}:${OPENFLOW_PORT}`;
  return {
    emulation: `sluice emu --topo tree,2,3${controller}`,
    mininet: `sudo mn --controller=remote,ip=${address},port=${OPENFLOW_PORT} --switch=ovs,protocols=OpenFlow13 --topo=tree,2,3`,
    openVswitch: `ovs-vsctl set-controller BRIDGE tcp:${address}:${OPENFLOW_PORT}`,
  };
}
