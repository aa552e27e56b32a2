import { expect, test } from "vitest";
import { connectCommands, isExposed, isLoopback } from "./connect";

test("what a page from another machine sends without TLS can be read by others", () => {
  const hosts = ["localhost", "sluice.localhost", "127.0.0.1", "127.1.2.3", "[::1]"];
  expect(hosts.filter((hostname) => isExposed({ protocol: "http:", hostname }))).toEqual([]);
  const others = ["controller.example", "localhost.example", "10.0.0.1", "127.0.0.1.example", "[2001:db8::1]", "[fe80::1]"];
  expect(others.filter((hostname) => !isExposed({ protocol: "http:", hostname }))).toEqual([]);
  expect(others.filter((hostname) => isExposed({ protocol: "https:", hostname }))).toEqual([]);
  expect(others.some(isLoopback)).toBe(false);
});

test("commands that connect switches have the address of the controller", () => {
  expect(connectCommands("localhost")).toEqual({
    emulation: "sluice emu --topo tree,2,3",
    mininet: "sudo mn --controller=remote,ip=127.0.0.1,port=6653 --switch=ovs,protocols=OpenFlow13 --topo=tree,2,3",
    openVswitch: "ovs-vsctl set-controller BRIDGE tcp:127.0.0.1:6653",
  });
  expect(connectCommands("192.0.2.1")).toEqual({
    emulation: "sluice emu --topo tree,2,3 --controller 192.0.2.1:6653",
    mininet: "sudo mn --controller=remote,ip=192.0.2.1,port=6653 --switch=ovs,protocols=OpenFlow13 --topo=tree,2,3",
    openVswitch: "ovs-vsctl set-controller BRIDGE tcp:192.0.2.1:6653",
  });
  expect(connectCommands("[2001:db8::1]").openVswitch).toBe("ovs-vsctl set-controller BRIDGE tcp:[2001:db8::1]:6653");
});
