//! The table of keys.

use crate::config::rows::Effect::{Live, Restart};

/// One key of the configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its name, sections and key with dots between.
    pub(crate) key: &'static str,
    /// Its default, as TOML.
    pub(crate) default: &'static str,
    /// When a change of it takes effect.
    pub(crate) effect: Effect,
    /// What it is: sentences.
    pub(crate) doc: &'static str,
    /// The flag that takes a value for it.
    pub(crate) flag: Option<Flag>,
    /// The flag that sets it to one value.
    pub(crate) switch: Option<Switch>,
}

/// When a change in the file takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// At SIGHUP.
    Live,
    /// At the next start.
    Restart,
}

/// A flag with a value: `--name VALUE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// What `VALUE` is called in the help.
    pub(crate) value: &'static str,
}

/// A flag without a value: `--name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) name: &'static str,
    /// The value that it sets.
    pub(crate) sets: &'static str,
    pub(crate) help: &'static str,
}

impl Row {
    /// The row of `key`.
    pub(crate) fn of(key: &str) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.key == key)
    }

    /// Its name in the environment.
    pub(crate) fn env(&self) -> String {
        format!("SLUICE_{}", self.key.replace('.', "__").to_uppercase())
    }

    /// Section and last part of the key; the section is empty at the top.
    pub(crate) fn parts(&self) -> (&'static str, &'static str) {
        self.key.rsplit_once('.').unwrap_or(("", self.key))
    }

    /// Whether it may change without notice.
    pub(crate) fn is_experimental(&self) -> bool {
        self.parts().0 == EXPERIMENTAL
    }

    const fn flag(mut self, name: &'static str, value: &'static str) -> Self {
        self.flag = Some(Flag { name, value });
        self
    }

    const fn switch(mut self, name: &'static str, sets: &'static str, help: &'static str) -> Self {
        self.switch = Some(Switch { name, sets, help });
        self
    }
}

/// The section of the keys that may change without notice.
pub(crate) const EXPERIMENTAL: &str = "experimental";

const fn row(key: &'static str, default: &'static str, effect: Effect, doc: &'static str) -> Row {
    Row { key, default, effect, doc, flag: None, switch: None }
}

/// Every key, in the order of the example file: keys without a section first, then section by section.
///
/// Keys of the section `experimental` are for tests, measurements and experiments. They are left out of the example file.
pub(crate) const ROWS: &[Row] = &[
    row(
        "listen",
        r#"["[::]:6653", "[::]:6633"]"#,
        Live,
        "Addresses on which switches are accepted. [::] accepts IPv4 as well; with port 0 the system chooses a port.",
    )
    .flag("listen", "ADDR"),
    row(
        "apps",
        r#"["topology", "hosts", "forwarding"]"#,
        Restart,
        "Applications, in the order in which they handle a packet: topology, hosts, forwarding, limiter, learning, hub. \
         limiter goes first; learning and hub are used instead of the default three.",
    )
    .flag("app", "NAMES"),
    row("workers.threads", "0", Restart, "Worker threads; 0 starts one per available core.")
        .flag("threads", "N"),
    row(
        "workers.pin",
        "true",
        Restart,
        "Whether each worker thread is bound to a core of its own (true or false), or the list of cores to bind them to.",
    )
    .flag("pin", "on|off|CORES"),
    row(
        "workers.spin_us",
        "0",
        Restart,
        "Microseconds for which an idle worker polls its connections before it sleeps. A few hundred shorten response \
         times by tens of microseconds and keep the core busy; 0 sleeps at once.",
    )
    .flag("spin", "US"),
    row(
        "session.versions",
        r#"["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"]"#,
        Live,
        "OpenFlow versions offered to switches. A session uses the highest version that both sides support.",
    ),
    row(
        "session.echo_interval_s",
        "5",
        Live,
        "Seconds without a message from a switch after which an echo request is sent to it.",
    ),
    row(
        "session.echo_timeout_s",
        "10",
        Live,
        "Seconds without an echo reply after which a switch is disconnected.",
    ),
    row(
        "session.role",
        r#""none""#,
        Live,
        "Controller role to request from switches of OpenFlow 1.2 and later: none (no request), equal, master or slave.",
    ),
    row(
        "session.miss_send_len",
        r#""auto""#,
        Live,
        "Bytes of a packet that the switch sends to the controller while it buffers the packet. auto: 128 bytes before \
         OpenFlow 1.3, and the whole packet without buffering (OFPCML_NO_BUFFER) from 1.3 on. A number applies to all \
         versions; 65535 is the whole packet without buffering.",
    ),
    row(
        "limits.handshakes_max",
        "4096",
        Live,
        "Connections that may be in the handshake at one time. Beyond it the connection that has been silent for longest \
         is closed, connections of an address that has more than half of them first.",
    ),
    row(
        "limits.switches_max",
        "12_288",
        Live,
        "Switches connected at one time; more are refused.",
    ),
    row(
        "limits.backlog_bytes_max",
        "262_144",
        Live,
        "Bytes waiting to be sent to a switch beyond which no more messages are read from it.",
    ),
    row(
        "socket.congestion",
        r#""cubic""#,
        Restart,
        "TCP congestion control of connections to switches, such as cubic or bbr; system leaves it to the system. The \
         default falls back to system where cubic is not available.",
    ),
    row(
        "topology.probe_interval_ms",
        "1000",
        Live,
        "Milliseconds between two LLDP probes of a port; at least 250. A link is down after three lost probes.",
    ),
    row(
        "topology.probes_per_s_max",
        "3000",
        Live,
        "LLDP probes that a worker thread sends per second at most; with more ports, each is probed less often.",
    ),
    row(
        "topology.secret",
        r#""""#,
        Restart,
        "Key that signs LLDP probes: 32 hex digits, the same for all controllers of a network. Empty: a random key at \
         each start.",
    ),
    row("hosts.hosts_max", "131_072", Live, "Hosts in the host table, in the whole network; more are not learned."),
    row("hosts.per_port_max", "0", Live, "Hosts learned at one port; 0 sets no limit."),
    row(
        "hosts.timeout_s",
        "300",
        Live,
        "Seconds of silence after which a host is probed; without an answer it is removed.",
    ),
    row(
        "hosts.arp_proxy",
        "true",
        Live,
        "Whether the controller answers ARP requests and IPv6 neighbor solicitations for known hosts.",
    ),
    row(
        "hosts.address_conflicts",
        r#""report""#,
        Live,
        "What to do when a host claims the MAC or IP address of another host that is still there: off (nothing), report \
         (log it and restore the address), or refuse (also drop its packets until the other host is known to be gone).",
    ),
    row(
        "hosts.requests_per_s_max",
        "1000",
        Live,
        "ARP, neighbor discovery and DHCP packets handled per second and port; more are dropped.",
    ),
    row(
        "forwarding.match",
        r#""pair""#,
        Live,
        "What a flow entry matches besides the VLAN: dst (destination MAC address), pair (destination and source), or \
         five-tuple (both, and the Ethernet type; for IP also addresses, protocol and ports).",
    ),
    row(
        "forwarding.both_directions",
        "true",
        Live,
        "Whether the path for the replies is installed together with the path of the first packet.",
    ),
    row("forwarding.priority", "100", Live, "Priority of the flow entries, 1 to 65535."),
    row(
        "forwarding.idle_timeout_s",
        "60",
        Live,
        "Seconds without a matching packet after which a flow entry expires; 0 disables this.",
    ),
    row(
        "forwarding.hard_timeout_s",
        "0",
        Live,
        "Seconds after which a flow entry expires in any case; 0 disables this.",
    ),
    row(
        "forwarding.flood",
        r#""controller""#,
        Live,
        "How broadcasts and multicasts reach all edge ports: controller (one packet-out to each switch) or tree (one \
         packet-in, then along a spanning tree in the switches).",
    ),
    row(
        "forwarding.floods_per_s_max",
        "1000",
        Live,
        "Broadcast, multicast and unknown unicast packets flooded per second and port; more are dropped.",
    ),
    row(
        "learning.match",
        r#""port-pair""#,
        Live,
        "What a flow entry matches besides the VLAN: dst (destination MAC address), pair (destination and source), or \
         port-pair (both and the ingress port, so that the controller sees at once when a host moves).",
    ),
    row("learning.hosts_max", "131_072", Live, "Hosts in the MAC address table of each switch."),
    row(
        "learning.host_timeout_s",
        "300",
        Live,
        "Seconds without a packet-in from a host after which it is removed from the table; at most 64800.",
    ),
    row(
        "learning.idle_timeout_s",
        "60",
        Live,
        "Seconds without a matching packet after which a flow entry expires; 0 disables this.",
    ),
    row(
        "learning.hard_timeout_s",
        "0",
        Live,
        "Seconds after which a flow entry expires in any case; 0 disables this.",
    ),
    row("learning.priority", "100", Live, "Priority of the flow entries, 1 to 65535."),
    row(
        "limiter.packets_per_s_max",
        "1000",
        Live,
        "Packet-ins per second from one port beyond which the port is blocked; 0 disables the limiter.",
    ),
    row(
        "limiter.burst_packets",
        "500",
        Live,
        "Packet-ins that a port may send at once in addition.",
    ),
    row("limiter.block_s", "5", Live, "Seconds for which a port is blocked, 1 to 65535."),
    row(
        "limiter.meters",
        "true",
        Live,
        "Whether a port is blocked by a meter, which lets packets_per_s_max through, where the switch supports meters; \
         otherwise by a flow entry that drops table misses.",
    ),
    row(
        "limiter.proactive",
        "false",
        Live,
        "Whether every edge port gets its meter as soon as it is known, where the switch supports meters. For a \
         controller so far away that a port would send too much before it is blocked.",
    ),
    row(
        "limiter.ecn",
        "true",
        Live,
        "Whether packets of ECN-capable senders are marked (congestion experienced, RFC 3168) once half of the burst is \
         used, from OpenFlow 1.2 on.",
    ),
    row(
        "api.listen",
        r#""127.0.0.1:8653""#,
        Restart,
        "Address on which metrics are served over HTTP, or off.",
    )
    .flag("api", "ADDR")
    .switch("no-api", "off", "Serve no metrics over HTTP"),
    row("log.level", r#""info""#, Live, "What is logged: off, error, warn, info, debug or trace.")
        .flag("log-level", "LEVEL"),
    row(
        "log.format",
        r#""text""#,
        Restart,
        "Format of the log on standard error: text, or json (one object per line).",
    )
    .flag("log-format", "text|json"),
    row(
        "experimental.handshake_timeout_ms",
        "10_000",
        Live,
        "Milliseconds in which a peer must complete the handshake.",
    ),
    row(
        "experimental.settle_ms",
        "250",
        Live,
        "Milliseconds without a probe after which a port counts as an edge port; the longest round trip to a switch if \
         that is more.",
    ),
    row(
        "experimental.shared_interval_ms",
        "5000",
        Live,
        "Milliseconds between two probes for unmanaged segments that join several edge ports; at least 250.",
    ),
    row(
        "experimental.path_pending_ms",
        "50",
        Live,
        "Milliseconds for which an installed path counts as pending, in addition to one and a half round trips to the \
         switch: packet-ins of its flow are forwarded meanwhile, and the path is not installed again. 0 installs it for \
         each packet-in.",
    ),
    row(
        "experimental.refused_retry_s",
        "10",
        Live,
        "Seconds for which a switch that refused a flow entry gets no others, and after which a finer match is tried \
         again once no connected switch has refused it.",
    ),
];
