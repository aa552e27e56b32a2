#!/usr/bin/env python3
"""Records messages between Open vSwitch and ovs-ofctl, for crates/openflow/tests/golden/live/.

    scripts/record-ovs.py [VERSION...]        1.0 1.1 1.2 1.3 1.4 1.5, all of them without VERSION

Needs neither root nor a network: Open vSwitch uses its dummy datapath, and a relay between ovs-ofctl and the switch
assigns each message to the command that caused it. Of messages whose output of `ovs-ofctl ofp-print` differs only in
digits, one is kept; long multipart replies are shortened to their first records, with a comment. Between recordings,
only random values and times should differ.
"""

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(ROOT, "crates/openflow/tests/golden/live")
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
VERSIONS = {"1.0": 1, "1.1": 2, "1.2": 3, "1.3": 4, "1.4": 5, "1.5": 6}
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3

# Longer multipart replies are shortened to their first records.
BYTES_MAX = 700

# Of longer messages, one of each type is kept.
LONG = 400

FLOWS = [
    "actions=drop",
    "priority=1,in_port=1,actions=output:2",
    "in_port=LOCAL,actions=normal",
    "table=1,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,actions=flood",
    "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=all",
    "dl_vlan=5,dl_vlan_pcp=3,actions=mod_vlan_vid:7,mod_vlan_pcp:2,output:2",
    "vlan_tci=0,actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:1",
    "dl_vlan=9,actions=strip_vlan,in_port",
    "vlan_tci=0x1000/0x1000,actions=pop_vlan,output:2",
    "dl_type=0x88b5,actions=controller:128",
    "arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,actions=controller",
    "arp,arp_sha=02:00:00:00:00:01,arp_tha=02:00:00:00:00:02,actions=local",
    "ip,nw_src=10.0.0.0/8,nw_dst=192.168.0.0/16,actions=mod_nw_src:1.2.3.4,mod_nw_dst:5.6.7.8,output:3",
    "ip,nw_tos=16,nw_ecn=1,actions=mod_nw_tos:32,mod_nw_ecn:2,output:3",
    "ip,nw_ttl=3,ip_frag=later,actions=mod_nw_ttl:9,dec_ttl,output:2",
    "ip,ip_dscp=5,nw_proto=47,actions=dec_ttl(1,2),output:2",
    "tcp,tp_src=80,tp_dst=1024/0xfc00,actions=mod_tp_src:8080,mod_tp_dst:81,output:2",
    "tcp,tcp_flags=+syn-ack,actions=output:2",
    "udp,udp_src=53,udp_dst=5353,actions=set_field:54->udp_src,output:2",
    "sctp,sctp_src=7,sctp_dst=8,actions=output:2",
    "icmp,icmp_type=8,icmp_code=0,actions=output:2",
    "ipv6,ipv6_src=2001:db8::/32,ipv6_dst=2001:db8::1,ipv6_label=0x12345,"
    "actions=set_field:2001:db8::2->ipv6_dst,output:2",
    "icmp6,icmpv6_type=135,icmpv6_code=0,nd_target=fe80::1,nd_sll=02:00:00:00:00:01,actions=output:2",
    "icmp6,icmpv6_type=136,icmpv6_code=0,nd_target=fe80::/10,nd_tll=02:00:00:00:00:01,"
    "nd_options_type=2,nd_reserved=7,actions=output:2",
    "mpls,mpls_label=100,mpls_tc=3,mpls_bos=1,actions=dec_mpls_ttl,set_mpls_ttl(9),output:2",
    "mpls,mpls_ttl=7,actions=pop_mpls:0x800,output:2",
    "ip,actions=push_mpls:0x8847,set_field:5->mpls_label,set_field:2->mpls_tc,output:2",
    "dl_type=0x894f,nsh_spi=0x123456,nsh_si=7,nsh_mdtype=1,nsh_np=3,nsh_flags=1,nsh_ttl=9,nsh_c1=1,nsh_c2=2/3,actions=output:2",
    "metadata=0x123456789abcdef0/0xffff0000ffff0000,actions=output:2",
    "tun_id=0x5eed,tun_src=10.0.0.1,tun_dst=10.0.0.2,tun_tos=4,tun_ttl=64,actions=output:2",
    "tun_ipv6_src=2001:db8::1,tun_ipv6_dst=2001:db8::2,actions=output:2",
    "tun_gbp_id=5,tun_gbp_flags=8,actions=output:2",
    "tun_erspan_ver=1,tun_erspan_idx=7,actions=output:2",
    "tun_gtpu_flags=48,tun_gtpu_msgtype=255,actions=output:2",
    "reg0=1,reg15=0xff/0xff,xreg3=7,actions=load:5->NXM_NX_REG1[],output:NXM_NX_REG0[0..15]",
    "xxreg1=0x123456789abcdef0fedcba9876543210,actions=set_field:7->xxreg2,output:2",
    "pkt_mark=3/0xf,actions=output:2",
    "actset_output=unset,actions=write_actions(output:2)",
    "in_port_oxm=2,actions=output:1",
    "conj_id=7,actions=output:2",
    "packet_type=(1,0x800),actions=output:2",
    "ct_state=+trk+new-inv,ct_zone=5,ct_mark=1/3,ip,actions=output:2",
    "ct_label=0x1/0xff,ip,ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=2,"
    "ct_state=+trk,actions=output:2",
    "ipv6,ct_state=+trk,ct_ipv6_src=2001:db8::1,ct_ipv6_dst=2001:db8::2,actions=output:2",
    "tun_metadata0=0x12345678,actions=set_field:0x9->tun_metadata0,output:2",
    "ip,actions=set_field:10.1.2.3/255.255.255.0->ip_dst,output:2",
    "actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],load:0x7->NXM_NX_REG3[4..8],output:2",
    "actions=set_tunnel:5,set_tunnel64:0x123456789a,set_queue:3,output:1,pop_queue",
    "actions=enqueue:1:2",
    "actions=resubmit:3,resubmit(,2),resubmit(1,2)",
    "actions=push:NXM_NX_REG0[0..15],pop:NXM_NX_REG1[16..31]",
    "actions=bundle(eth_src,50,hrw,ofport,slaves:1,2)",
    "actions=bundle_load(symmetric_l4,60,active_backup,ofport,NXM_NX_REG0[0..15],members:1,2,3)",
    "actions=multipath(symmetric_l4,1024,modulo_n,2,0,NXM_NX_REG0[0..15])",
    "table=1,actions=learn(table=2,idle_timeout=10,hard_timeout=20,fin_idle_timeout=3,priority=9,send_flow_rem,"
    "NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],eth_type=0x800,load:5->NXM_NX_REG1[],"
    "load:NXM_NX_REG2[]->NXM_NX_REG3[],output:NXM_OF_IN_PORT[])",
    "actions=learn(table=3,limit=7,result_dst=NXM_NX_REG0[0],delete_learned,NXM_OF_IN_PORT[])",
    "actions=conjunction(7,1/2)",
    "actions=note:01.02.03.04.05.06.07",
    "tcp,actions=fin_timeout(idle_timeout=5,hard_timeout=6),output:1",
    "actions=sample(probability=7,collector_set_id=1,obs_domain_id=2,obs_point_id=3)",
    "actions=sample(probability=7,collector_set_id=1,obs_domain_id=2,obs_point_id=3,sampling_port=1,egress)",
    "actions=controller(reason=invalid_ttl,max_len=99,id=7)",
    "actions=controller(userdata=01.02.03.04.05,pause,meter_id=3)",
    "actions=output(port=2,max_len=100)",
    "actions=exit",
    "actions=clone(set_field:02:00:00:00:00:09->eth_src,output:2),output:1",
    "actions=check_pkt_larger(1500)->NXM_NX_REG0[0],output:1",
    "actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),encap(ethernet),output:1",
    "actions=encap(nsh(md_type=1)),decap(),decap(packet_type(ns=1,type=0x894f)),output:1",
    "dl_type=0x894f,actions=dec_nsh_ttl,output:1",
    "ip,actions=ct",
    "ip,actions=ct(commit,zone=5,table=2,exec(set_field:1->ct_mark,load:7->NXM_NX_CT_LABEL[0..15]))",
    "ip,actions=ct(commit,force,zone=NXM_NX_REG0[0..15],nat(src=10.0.0.240-10.0.0.254:1000-2000,random,persistent))",
    "tcp6,actions=ct(commit,nat(dst=[2001:db8::1]-[2001:db8::9]:80-90,hash)),ct_clear",
    "tcp,actions=ct(commit,alg=ftp,nat)",
    "ip,actions=ct_clear,delete_field:tun_metadata0",
    "actions=goto_table:5",
    "ip,actions=meter:1,output:2,write_metadata:0x12/0xff,goto_table:9",
    "ip,actions=clear_actions,write_actions(set_field:02:00:00:00:00:05->eth_dst,push_vlan:0x88a8,group:1)",
    "actions=group:1",
    "send_flow_rem,check_overlap,idle_timeout=60,hard_timeout=600,cookie=0x5eed,priority=9,in_port=3,actions=output:1",
    "reset_counts,no_packet_counts,no_byte_counts,importance=77,in_port=2,actions=output:1",
]

GROUPS = [
    "group_id=1,type=all,bucket=output:1,bucket=set_field:02:00:00:00:00:07->eth_dst,output:2",
    "group_id=2,type=select,bucket=weight:10,output:1,bucket=weight:20,output:2",
    "group_id=3,type=indirect,bucket=output:3",
    "group_id=4,type=ff,bucket=watch_port:1,output:1,bucket=watch_group:1,output:2",
    "group_id=5,type=select,selection_method=hash,selection_method_param=7,fields(eth_dst,ip_src=255.255.255.0),"
    "bucket=bucket_id:9,weight:5,output:1",
    "group_id=6,type=select,selection_method=dp_hash,bucket=weight:1,output:1",
]

METERS = [
    "meter=1,kbps,burst,stats,band=type=drop,rate=1000,burst_size=100",
    "meter=2,pktps,band=type=drop,rate=5",
    "meter=3,kbps,band=type=dscp_remark,rate=1000,prec_level=2",
]

# Flow entries that cause asynchronous messages.
NOTIFYING_FLOWS = [
    "send_flow_rem,idle_timeout=60,in_port=1,actions=load:7->NXM_NX_REG0[],controller:64",
    "priority=9,dl_vlan=5,ip,actions=dec_ttl,controller:64",
    "in_port=2,actions=controller(userdata=01.02.03,max_len=32,reason=action)",
]

FRAMES = [
    "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),"
    "ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)",
    "in_port(2),eth(src=02:00:00:00:00:02,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),"
    "arp(sip=10.0.0.2,tip=10.0.0.1,op=1,sha=02:00:00:00:00:02,tha=00:00:00:00:00:00)",
    "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:03),eth_type(0x8100),vlan(vid=5,pcp=3),encap("
    "eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=1,tos=0,ttl=1,frag=no),icmp(type=8,code=0))",
]

UDP = "ffffffffffff020000000001080045000020000000004011000a0a0000010a00000200350035000c0000736c6963"

BUNDLE = """flow add table=7,in_port=1,actions=output:2
flow modify table=7,actions=output:3
flow delete_strict table=7,priority=32768,in_port=1
group add group_id=9,type=all,bucket=output:1
group delete group_id=9
packet-out in_port=1,packet=%s,actions=output:2
""" % UDP


class Switch:
    """Open vSwitch with one bridge, `br0`, with one OpenFlow version."""

    def __init__(self, name):
        self.dir = tempfile.mkdtemp(prefix="record-ovs-")
        self.env = {**os.environ, "OVS_RUNDIR": self.dir, "OVS_LOGDIR": self.dir, "OVS_DBDIR": self.dir}
        self.protocol = "OpenFlow" + name.replace(".", "")
        self.db = f"unix:{self.dir}/db.sock"
        self.run("ovsdb-tool", "create", f"{self.dir}/conf.db", SCHEMA)
        common = ["--no-chdir", "-vconsole:off", "--log-file"]
        self.daemons = [self.start("ovsdb-server", f"{self.dir}/conf.db", f"--remote=p{self.db}",
                                   f"--unixctl={self.dir}/db.ctl", *common)]
        while not os.path.exists(f"{self.dir}/db.sock"):
            time.sleep(0.05)
        self.vsctl("--no-wait", "init")
        self.daemons.append(self.start("ovs-vswitchd", self.db, "--enable-dummy=override", "--disable-system",
                                       f"--unixctl={self.dir}/vs.ctl", *common))
        self.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy", "fail_mode=secure",
                   f"protocols={self.protocol}", "other_config:datapath-id=0000000000005eed",
                   "other_config:hwaddr=02:00:00:00:5e:ed")
        self.vsctl("--", "--id=@small", "create", "flow_table", "flow_limit=4", "--",
                   "set", "bridge", "br0", "flow_tables:4=@small")
        for port in range(1, 4):
            self.vsctl("add-port", "br0", f"p{port}", "--", "set", "interface", f"p{port}", "type=dummy",
                       f"ofport_request={port}")

    def start(self, *command):
        return subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def run(self, *command, timeout=20):
        result = subprocess.run(command, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout)
        if result.returncode != 0 or "|WARN|" in result.stderr:
            print(f"  {' '.join(command)[:160]}: {result.stderr.strip()[:200]}", file=sys.stderr)
        return result.stdout

    def vsctl(self, *words):
        return self.run("ovs-vsctl", "--timeout=10", f"--db={self.db}", *words)

    def appctl(self, *words):
        return self.run("ovs-appctl", "-t", f"{self.dir}/vs.ctl", *words)

    def ofctl(self, *words):
        """Runs ovs-ofctl without the relay, so that its messages are not recorded."""
        return self.run("ovs-ofctl", "-O", self.protocol, words[0], f"unix:{self.dir}/br0.mgmt", *words[1:])

    def receive(self, frame):
        port = re.match(r"in_port\((\d+)\)", frame)[1]
        self.appctl("netdev-dummy/receive", f"p{port}", frame)

    def connect(self):
        """Opens a connection to the management socket of the bridge."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"{self.dir}/br0.mgmt")
        return connection

    def close(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()
        shutil.rmtree(self.dir)


def split_messages(data):
    """The complete messages at the start of `data`, and the remaining bytes."""
    messages = []
    while len(data) >= 8:
        length = struct.unpack(">H", data[2:4])[0]
        if len(data) < length:
            break
        messages.append(data[:length])
        data = data[length:]
    return messages, data


class Relay:
    """A socket that forwards to the management socket of the bridge, and records all messages with their direction."""

    def __init__(self, switch):
        self.switch, self.received, self.lock = switch, [], threading.Lock()
        self.path = f"{switch.dir}/relay.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            switch = self.switch.connect()
            for source, target, direction in ((client, switch, ">"), (switch, client, "<")):
                threading.Thread(target=self.forward, args=(source, target, direction), daemon=True).start()

    def forward(self, source, target, direction):
        data = b""
        try:
            while chunk := source.recv(1 << 16):
                messages, data = split_messages(data + chunk)
                with self.lock:
                    self.received += [(direction, message) for message in messages]
                target.sendall(chunk)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def take(self):
        with self.lock:
            messages, self.received = self.received, []
        return messages


class Session:
    """A controller for messages that ovs-ofctl cannot send. Only the replies are recorded."""

    def __init__(self, switch, version):
        self.version, self.socket, self.bytes, self.received = version, switch.connect(), b"", []
        self.socket.settimeout(2)
        self.send(HELLO, b"")

    def send(self, kind, body, xid=1):
        self.socket.sendall(struct.pack(">BBHI", self.version, kind, 8 + len(body), xid) + body)

    def barrier(self):
        """Waits until all earlier messages have been processed."""
        kind = 18 if self.version == 1 else 20
        self.send(kind, b"", 0xba44)
        while not any(m[1] == kind + 1 and m[4:8] == b"\0\0\xba\x44" for m in self.received):
            self.receive()
        self.received = [m for m in self.received if m[4:8] != b"\0\0\xba\x44"]

    def receive(self):
        chunk = self.socket.recv(1 << 16)
        messages, self.bytes = split_messages(self.bytes + chunk)
        self.received += messages

    def take(self):
        messages, self.received = self.received, []
        return [("<", message) for message in messages]


class Recording:
    """The messages of one version, without those that have the shape of an earlier one."""

    def __init__(self, version):
        self.version, self.shapes, self.lines, self.command = version, set(), [], None

    def add(self, command, messages):
        for direction, message in messages:
            message, shortened = self.shorten(message)
            shape = (direction, self.shape(message))
            if shape in self.shapes or len(message) > 2 * BYTES_MAX:
                continue
            self.shapes.add(shape)
            if self.command != command:
                self.lines.append(f"# {command}")
                self.command = command
            if shortened:
                self.lines.append("# shortened to its first records")
            self.lines.append(message.hex())

    @staticmethod
    def shape(message):
        if message[1] in (ECHO_REQUEST, ECHO_REPLY):
            return message[1]
        if message[1] == HELLO:
            return len(message)
        if len(message) > LONG:
            return message[1], message[8:16]
        text = subprocess.run(["ovs-ofctl", "ofp-print", message.hex()], capture_output=True, text=True).stdout
        return re.sub(r"(0x)?[0-9a-f]*[0-9][0-9a-f]*", "0", text) or message.hex()

    def shorten(self, message):
        """Shortens a long multipart reply to its first records, whose length is fixed or in their first two bytes."""
        version, kind = message[0], message[1]
        if len(message) <= BYTES_MAX or kind != (17 if version == 1 else 19):
            return message, False
        head = 12 if version == 1 else 16
        subtype = struct.unpack(">H", message[8:10])[0]
        tables = {1: 64, 2: 88, 3: 128}.get(version, 24)
        at = head
        while at < len(message):
            size = tables if subtype == 3 else struct.unpack(">H", message[at:at + 2])[0]
            if subtype not in (1, 3, 12, 14) or size < 8 or (at > head and at + size > BYTES_MAX):
                break
            at += size
        if at == head:
            return message, False
        return message[:2] + struct.pack(">H", at) + message[4:at], True


def ofctl(switch, relay, recording, *words, note=None):
    """Runs a command of ovs-ofctl through the relay and records its messages."""
    bridge = {"BR": f"unix:{relay.path}"}
    switch.run("ovs-ofctl", "-O", switch.protocol, *(bridge.get(word, word) for word in words))
    recording.add("ovs-ofctl " + " ".join(note or words), relay.take())


def file(switch, name, text):
    path = f"{switch.dir}/{name}"
    with open(path, "w", encoding="ascii") as out:
        out.write(text)
    return path


def describe_switch(switch, relay, recording):
    for words in ("show BR", "dump-desc BR", "dump-tables BR", "dump-table-features BR", "dump-table-desc BR",
                  "dump-ports BR", "dump-ports BR 1", "dump-ports-desc BR", "dump-ports-desc BR 1",
                  "get-frags BR", "set-frags BR drop", "set-frags BR nx-match", "set-frags BR normal",
                  "mod-port BR 1 down", "mod-port BR 1 up", "mod-port BR 2 no-flood", "mod-port BR 2 no-packet-in",
                  "mod-port BR 2 flood", "mod-table BR 3 controller", "mod-table BR 3 continue",
                  "mod-table BR 4 evict", "mod-table BR 4 vacancy:20,80", "queue-stats BR", "queue-stats BR 1 0",
                  "queue-get-config BR", "queue-get-config BR 1", "queue-get-config BR 1 0", "probe BR", "ping BR 32",
                  "dump-ipfix-bridge BR", "dump-ipfix-flow BR", "ct-flush-zone BR 5", "ct-flush BR zone=5",
                  "ct-flush BR zone=5 ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80", "meter-features BR",
                  "dump-group-features BR"):
        ofctl(switch, relay, recording, *words.split())


def groups_and_meters(switch, relay, recording):
    for group in GROUPS:
        ofctl(switch, relay, recording, "add-group", "BR", group)
    for words in ("mod-group BR group_id=3,type=indirect,bucket=output:1",
                  "--may-create mod-group BR group_id=7,type=all,bucket=output:1",
                  "insert-buckets BR group_id=2,command_bucket_id=last,bucket=bucket_id:5,weight:7,output:3",
                  "insert-buckets BR group_id=2,command_bucket_id=5,bucket=bucket_id:6,weight:7,output:3",
                  "remove-buckets BR group_id=2,command_bucket_id=5",
                  "remove-buckets BR group_id=2,command_bucket_id=all",
                  "dump-groups BR", "dump-groups BR 4", "dump-group-stats BR", "dump-group-stats BR group_id=1"):
        ofctl(switch, relay, recording, *words.split())
    for meter in METERS:
        ofctl(switch, relay, recording, "add-meter", "BR", meter)
    for words in ("mod-meter BR meter=2,pktps,band=type=drop,rate=9", "dump-meters BR", "dump-meter BR meter=1",
                  "meter-stats BR", "meter-stats BR meter=2", "del-meter BR meter=2"):
        ofctl(switch, relay, recording, *words.split())


def flows(switch, relay, recording, *options, rules=FLOWS):
    for flow in rules:
        ofctl(switch, relay, recording, *options, "add-flow", "BR", flow)
    for words in ("dump-flows BR", "dump-flows BR table=1", "dump-flows BR out_port=2,ip", "dump-aggregate BR",
                  "dump-aggregate BR cookie=0x5eed/-1", "mod-flows BR in_port=1,actions=output:3",
                  "--strict mod-flows BR priority=1,in_port=1,actions=output:2", "del-flows BR cookie=0x77/0xff",
                  "del-flows BR table=9,out_port=1", "del-flows BR out_group=8", "--strict del-flows BR in_port=77"):
        ofctl(switch, relay, recording, *options, *words.split())


def bundles(switch, relay, recording):
    rules = file(switch, "rules", "in_port=1,actions=output:2\nin_port=2,actions=output:1\n")
    ofctl(switch, relay, recording, "--bundle", "add-flows", "BR", rules,
          note=["--bundle", "add-flows", "BR", "FILE"])
    ofctl(switch, relay, recording, "--bundle", "replace-flows", "BR", rules,
          note=["--bundle", "replace-flows", "BR", "FILE"])
    # The bundle extension of 1.3 has no PACKET_OUT.
    has_packet_out = switch.protocol >= "OpenFlow14"
    mixed = file(switch, "mixed", "".join(line for line in BUNDLE.splitlines(True) if has_packet_out or "packet" not in line))
    ofctl(switch, relay, recording, "bundle", "BR", mixed, note=["bundle", "BR", "FILE"])


def packets_out(switch, relay, recording):
    for words in (f"packet-out BR in_port=1,packet={UDP},actions=output:2",
                  f"packet-out BR in_port=controller,packet={UDP},actions=set_field:02:00:00:00:00:09->eth_src,flood",
                  f"packet-out BR in_port=none,packet={UDP},actions=resubmit(,3)"):
        ofctl(switch, relay, recording, *words.split())


def monitors(switch, relay, recording):
    """Asynchronous messages: packet-ins, removed flow entries, port changes, flow monitor updates."""
    for options in (("-P", "standard"), ("-P", "nxt_packet_in"), ("-P", "nxt_packet_in2"), ("-i",)):
        words = ("monitor", f"unix:{relay.path}", "128", *options, "watch:!own")
        monitor = switch.start("ovs-ofctl", "-O", switch.protocol, *words)
        time.sleep(0.5)
        switch.ofctl("del-flows")
        for flow in NOTIFYING_FLOWS:
            switch.ofctl("add-flow", flow)
        for frame in FRAMES:
            switch.receive(frame)
        switch.ofctl("add-flow", "in_port=2,actions=controller(userdata=01.02.03,pause)")
        switch.receive(FRAMES[1])
        switch.ofctl("del-flows", "in_port=1")
        switch.ofctl("mod-flows", "in_port=2,actions=output:3")
        switch.ofctl("mod-port", "3", "down")
        switch.vsctl("add-port", "br0", "p4", "--", "set", "interface", "p4", "type=dummy", "ofport_request=4")
        switch.vsctl("del-port", "br0", "p4")
        switch.ofctl("mod-port", "3", "up")
        time.sleep(0.5)
        monitor.terminate()
        monitor.wait()
        recording.add(f"ovs-ofctl monitor BR 128 {' '.join(options)} watch:!own", relay.take())


def asynchronous(version):
    """A SET_ASYNC body that enables all asynchronous messages, for 1.3 or later versions."""
    if version == 4:
        return struct.pack(">6I", 7, 7, 7, 7, 15, 15)
    reasons = [0x3f, 0x3f, 7, 7, 0x3f, 0x3f, 3, 3, 0x18, 0x18, 3, 3]
    return b"".join(struct.pack(">HHI", kind, 8, mask) for kind, mask in enumerate(reasons))


def sessions(switch, recording, version):
    """Replies to requests that ovs-ofctl does not send, and notifications between controllers."""
    session, other = Session(switch, version), Session(switch, version)
    nicira = struct.pack(">II", 0x2320, 10)
    role = (lambda r, gen: (4, nicira + struct.pack(">I", r - 1))) if version < 3 else (
        lambda r, gen: (24, struct.pack(">I4xQ", r, gen)))
    requests = [("role", *role(1, 0)), ("role", *role(2, 5))]
    if version >= 4:
        requests += [("get_async", 26, b""), ("set_async", 28, asynchronous(version)), ("get_async", 26, b"")]
    requests += [("role of another", *role(2, 6)), ("stale role request", *role(2, 5))]
    requests += [("an unknown message type", 77, b""), ("a bad length", 14, b"\0" * 9),
             ("an unknown multipart type", 16 if version == 1 else 18, struct.pack(">HH4x", 77, 0)),
             ("an unknown experimenter", 4, struct.pack(">II", 0x123456, 7)),
             ("get_config", 7, b""), ("echo", ECHO_REQUEST, b"sluice")]
    for request, kind, body in requests:
        (other if request.startswith("role of") else session).send(kind, body)
        session.barrier()
        other.barrier()
        recording.add(f"a controller requests: {request}", session.take() + other.take())
    if version >= 2:
        other.send(15, struct.pack(">HBxI", 0, 0, 99) + (struct.pack(">HHIHH4x", 0, 0, 0xffffffff, 0, 0)[:8]
                                                       if version == 6 else b""))
        other.send(15, struct.pack(">HBxI", 2, 0, 99) + (struct.pack(">HHI", 0, 0, 0xffffffff)
                                                       if version == 6 else b""))
        other.barrier()
        session.barrier()
        recording.add("a controller changes groups, another one is notified", session.take() + other.take())
    if version >= 5:
        for port in range(1, 5):
            switch.ofctl("add-flow", f"table=4,in_port={port},actions=drop")
        switch.ofctl("del-flows", "table=4")
        session.barrier()
        recording.add("a flow table becomes full and is emptied", session.take())


def record(name):
    version = VERSIONS[name]
    print(f"== {name}", file=sys.stderr)
    switch, recording = Switch(name), Recording(version)
    try:
        relay = Relay(switch)
        describe_switch(switch, relay, recording)
        ofctl(switch, relay, recording, "add-tlv-map", "BR",
              "{class=0x102,type=0x80,len=4}->tun_metadata0,{class=0x102,type=0x81,len=8}->tun_metadata1")
        ofctl(switch, relay, recording, "dump-tlv-map", "BR")
        groups_and_meters(switch, relay, recording)
        flows(switch, relay, recording, *(["-F", "openflow10+table_id"] if version == 1 else []))
        if version == 1:
            flows(switch, relay, recording, "-F", "nxm")
            flows(switch, relay, recording, "-F", "nxm+table_id", rules=FLOWS[:5])
        packets_out(switch, relay, recording)
        monitors(switch, relay, recording)
        bundles(switch, relay, recording)
        sessions(switch, recording, version)
        for words in ("del-flows BR", "del-tlv-map BR {class=0x102,type=0x81,len=8}->tun_metadata1", "del-tlv-map BR",
                      "del-groups BR group_id=1", "del-groups BR", "del-meters BR"):
            ofctl(switch, relay, recording, *words.split())
    finally:
        switch.close()
    return recording.lines


def main():
    about = subprocess.run(["ovs-ofctl", "--version"], capture_output=True, text=True, check=True).stdout
    about = re.search(r"Open vSwitch\) (\S+)", about)[1]
    os.makedirs(GOLDEN, exist_ok=True)
    for name in sys.argv[1:] or VERSIONS:
        lines = record(name)
        head = f"# origin: Open vSwitch {about}, OpenFlow {name}, recorded by scripts/record-ovs.py; a line is a message"
        with open(os.path.join(GOLDEN, f"{name}.hex"), "w", encoding="ascii") as out:
            out.write("\n".join([head, *lines]) + "\n")


main()
