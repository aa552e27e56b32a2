import { expect, test } from "vitest";
import { compose, EMPTY_FORM, parseFlow, problems, protocolOf, splitList, type FlowForm } from "./fields";

function form(fields: [string, string][], actions = ["drop"], protocol = ""): FlowForm {
  return { ...EMPTY_FORM, protocol, fields: fields.map(([name, value]) => ({ name, value })), actions };
}

test("a match gets the protocols that its fields need", () => {
  expect(compose(form([["tcp_dst", "80"]]))).toBe("priority=200,tcp,tcp_dst=80,actions=drop");
  expect(compose(form([["nw_src", "10.0.0.3"]]))).toBe("priority=200,ip,nw_src=10.0.0.3,actions=drop");
  expect(compose(form([["nw_src", "10.0.0.3"], ["udp_dst", "53"]]))).toContain("udp,nw_src");
  expect(compose(form([["ipv6_dst", "2001:db8::1"], ["tcp_dst", "80"]]))).toContain("tcp6,ipv6_dst");
  expect(compose(form([["in_port", "1"]], ["output:2", "output:3"]))).toBe("priority=200,in_port=1,actions=output:2,output:3");
  expect(compose(form([], ["drop"], "arp"))).toBe("priority=200,arp,actions=drop");
});

test("fields that exclude each other are reported", () => {
  expect(protocolOf(form([["tcp_dst", "80"], ["udp_dst", "53"]])).conflict).toContain("needs udp");
  expect(problems(form([["nw_src", "10.0.0.1"], ["ipv6_src", "::1"]])).join()).toContain("ip");
  expect(problems(form([["dl_type", "0x800"], ["nw_src", "10.0.0.1"]])).join()).toContain("combined with ip");
  expect(problems(form([["dl_type", "0x86dd"]], ["drop"], "tcp"))).toHaveLength(1);
  expect(problems(form([["arp_spa", "10.0.0.1"], ["nw_src", "10.0.0.1"]]))).not.toEqual([]);
});

test("values, numbers and actions are checked", () => {
  expect(problems(form([["nw_src", "10.0.0.0/24"], ["tcp_dst", "80"]], ["output:1"]))).toEqual([]);
  for (const wrong of [
    form([["nw_src", "printer"]]),
    form([["dl_src", "00:00"]]),
    form([["in_port", "1"], ["in_port", "2"]]),
    form([["dl_vlan_pcp", "3"]]),
    form([], ["drop", "output:1"]),
    form([], []),
    { ...form([]), priority: "70000" },
    { ...form([]), table: "x" },
  ]) {
    expect(problems(wrong)).toHaveLength(1);
  }
});

test("a text becomes a form and the same text again", () => {
  for (const text of [
    "priority=200,tcp,tcp_dst=80,actions=drop",
    "table=3,priority=7,udp6,ipv6_src=2001:db8::/64,udp_dst=53,actions=output:2,group:4",
    "priority=5,icmp,actions=set_field:10.0.0.1->nw_dst,output:1",
    "priority=5,in_port=1,actions=CONTROLLER:128",
  ]) {
    const parsed = parseFlow(text);
    expect(parsed).not.toBeNull();
    expect(compose(parsed as FlowForm)).toBe(text);
  }
});

test("a text never becomes a form that matches more", () => {
  expect(parseFlow("priority=5,tcp,ip,nw_src=10.0.0.1,actions=drop")?.protocol).toBe("tcp");
  expect(parseFlow("priority=5,ip,tcp,actions=drop")?.protocol).toBe("tcp");
  expect(parseFlow("priority=5,ipv6,udp6,udp_dst=53,actions=drop")?.protocol).toBe("udp6");
  for (const text of ["tcp,udp,actions=drop", "tcp,ipv6,actions=drop", "dl_type=0x800,nw_src=10.0.0.1,actions=drop", "priority=5,priority=6,actions=drop", "table=1,ip,table=2,actions=drop"]) {
    expect(parseFlow(text)).toBeNull();
  }
});

test("what the form has no place for stays a text", () => {
  for (const text of ["priority=5,ct_state=+trk,actions=drop", "priority=5", "idle_timeout=5,actions=drop", "hello,actions=drop", "actions="]) {
    expect(parseFlow(text)).toBeNull();
  }
  expect(parseFlow("actions=drop")?.priority).toBe("32768");
});

test("a list is split at commas outside of parentheses", () => {
  expect(splitList("output:1, resubmit(,2),ct(commit,zone=1)")).toEqual(["output:1", "resubmit(,2)", "ct(commit,zone=1)"]);
});
