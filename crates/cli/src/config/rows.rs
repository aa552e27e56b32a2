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
    /// The flag that sets it.
    pub(crate) flag: Flag,
}

/// When a change in the file takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// At SIGHUP.
    Live,
    /// At the next start.
    Restart,
}

/// The flag of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    /// It has none.
    None,
    /// `--name VALUE`.
    Takes(&'static str, &'static str),
    /// `--name`, which sets it to false, and what that does.
    Off(&'static str, &'static str),
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

    const fn flag(mut self, name: &'static str, value: &'static str) -> Self {
        self.flag = Flag::Takes(name, value);
        self
    }

    const fn off(mut self, name: &'static str, does: &'static str) -> Self {
        self.flag = Flag::Off(name, does);
        self
    }
}

const fn row(key: &'static str, default: &'static str, effect: Effect, doc: &'static str) -> Row {
    Row { key, default, effect, doc, flag: Flag::None }
}

/// Every key. Keys of one section stand together, those without a section first, as TOML wants it.
pub(crate) const ROWS: &[Row] = &[
    row(
        "listen",
        r#"["[::]:6653", "[::]:6633"]"#,
        Live,
        "Addresses at which switches are accepted. [::] takes IPv4 as well; port 0 lets the system choose.",
    )
    .flag("listen", "ADDR"),
    row(
        "apps",
        r#"["topology", "hosts", "forwarding"]"#,
        Restart,
        "Applications, in the order in which they hear of a packet: limiter, topology, hosts, forwarding; or learning, or hub.",
    )
    .flag("app", "NAMES"),
    row("workers.threads", "0", Restart, "Worker threads; 0 for one per core that may be used.")
        .flag("threads", "N"),
    row(
        "workers.pin",
        "true",
        Restart,
        "Whether each worker is bound to a core of its own; or a list of cores, to which they are bound in turn.",
    )
    .flag("pin", "on|off|CORES"),
    row(
        "workers.spin_us",
        "0",
        Restart,
        "Microseconds for which a worker that has nothing to do asks again before it sleeps. Some hundreds shorten \
         answers by tens of microseconds and keep the core busy; 0 sleeps at once.",
    )
    .flag("spin", "US"),
    row(
        "session.versions",
        r#"["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"]"#,
        Live,
        "OpenFlow versions that are offered to switches; the highest that both know is spoken.",
    ),
    row(
        "session.handshake_timeout_ms",
        "10_000",
        Live,
        "Milliseconds in which a peer must have proved that it is a switch.",
    ),
    row(
        "session.echo_interval_s",
        "5",
        Live,
        "Seconds of silence after which a switch is asked whether it is there.",
    ),
    row("session.echo_timeout_s", "10", Live, "Seconds it may take to answer that."),
    row(
        "session.miss_send_len",
        "128",
        Live,
        "Bytes of a missed frame that come up where the switch keeps the frame; 65535 for all of it and no keeping.",
    ),
    row(
        "session.role",
        r#""none""#,
        Live,
        "Role to ask switches for: none (do not ask), equal, master or slave.",
    ),
    row(
        "session.multipart_bytes_max",
        "4_194_304",
        Live,
        "Bytes that unfinished replies in parts may hold, per switch.",
    ),
    row(
        "session.multipart_total_bytes_max",
        "67_108_864",
        Live,
        "Bytes that they may hold for all switches of one worker together.",
    ),
    row(
        "session.malformed_max",
        "1000",
        Live,
        "Malformed messages after which a switch is disconnected.",
    ),
    row(
        "limits.handshakes_max",
        "4096",
        Live,
        "Peers that may be shaking hands at one time. For one more, the longest silent is closed, or else the one whose \
         HELLO is the oldest; those of a host that holds more than half of the places come first.",
    ),
    row(
        "limits.hello_grace_ms",
        "500",
        Live,
        "Milliseconds for which a peer that has said HELLO keeps its place when all are taken.",
    ),
    row(
        "limits.handshake_bytes_max",
        "262_144",
        Live,
        "Bytes that a peer may send before it has proved that it is a switch.",
    ),
    row("limits.sessions_max", "12_288", Live, "Switches connected at one time; more are refused."),
    row(
        "limits.tx_backlog_max",
        "262_144",
        Live,
        "Bytes of answers that a switch may leave unread before nothing more is read from it.",
    ),
    row(
        "limits.unread_max_ms",
        "2000",
        Live,
        "Milliseconds, and four round trips more, for which what a switch says may stay unread since too much waits for it. \
         Then it is read, and frames that come up are left out, but for probes of links, until half as much waits.",
    ),
    row(
        "limits.mail_max",
        "4096",
        Live,
        "Messages of applications from switch to switch that may wait at one thread; more are lost and counted.",
    ),
    row(
        "limits.stuck_timeout_s",
        "30",
        Live,
        "Seconds after which a switch that takes none of its answers is disconnected.",
    ),
    row(
        "limits.duplicate_timeout_s",
        "2",
        Live,
        "Seconds in which a switch must show that it is alive when another connection claims its datapath id.",
    ),
    row(
        "socket.congestion",
        r#""cubic""#,
        Restart,
        "Congestion control of connections to switches, such as cubic or bbr; system for the system's own. If nobody \
         sets it and the system does not allow cubic, the system's own as well.",
    ),
    row(
        "socket.send_buffer",
        "0",
        Restart,
        "Bytes that the kernel may hold for sending, per connection; 0 leaves it to the kernel.",
    ),
    row(
        "socket.recv_buffer",
        "0",
        Restart,
        "Bytes that the kernel may hold of what came, per connection; 0 leaves it to the kernel.",
    ),
    row(
        "topology.probe_interval_ms",
        "1000",
        Live,
        "Milliseconds between two probes of a port; 250 at least.",
    ),
    row(
        "topology.probes_per_second",
        "3000",
        Live,
        "Probes that a worker thread sends in a second at most; with more ports, each is probed less often.",
    ),
    row("topology.lost_probes", "3", Live, "Probes that may be lost before a link is gone."),
    row(
        "topology.settle_ms",
        "250",
        Live,
        "Milliseconds for which a port must be quiet after its first probe before it is one for hosts; the longest \
         time that a switch takes to answer, if that is more.",
    ),
    row(
        "topology.shared_interval_ms",
        "5000",
        Live,
        "Milliseconds between two probes of a network of others, which may join several ports.",
    ),
    row(
        "topology.hold_s",
        "30",
        Live,
        "Seconds for which a port that led to a switch is not used for hosts after that switch has gone.",
    ),
    row(
        "topology.secret",
        r#""""#,
        Restart,
        "What probes are signed with: 32 hex digits, the same for all controllers of a network. Empty: drawn at each \
         start.",
    ),
    row("learning.hosts_max", "131_072", Live, "Stations that are remembered per switch."),
    row(
        "learning.host_timeout_s",
        "300",
        Live,
        "Seconds for which a silent station is believed to be where it was last seen; at most 64800.",
    ),
    row(
        "learning.idle_timeout_s",
        "60",
        Live,
        "Seconds without a packet after which a rule goes; 0 for never.",
    ),
    row("learning.hard_timeout_s", "0", Live, "Seconds after which a rule goes; 0 for never."),
    row("learning.priority", "100", Live, "Priority of the rules, 1 to 65535."),
    row(
        "learning.matching",
        r#""port-pair""#,
        Live,
        "What a rule matches besides the VLAN: dst (destination address), pair (destination and source), or \
         port-pair (both and the ingress port, so that a station that moves is seen at once).",
    ),
    row(
        "learning.miss_len",
        "65_535",
        Live,
        "Bytes of a frame that no rule matches that come up, from OpenFlow 1.3 on; 65535 for all of it and no keeping.",
    ),
    row("hub.miss_len", "65_535", Live, "Bytes of a frame that come up where hub is the application, from OpenFlow 1.3 on; 65535 for all of it."),
    row(
        "limiter.port_rate",
        "1000",
        Live,
        "Frames a second that may come up from a port before it is held; 0 for any number.",
    ),
    row("limiter.burst", "500", Live, "Frames that may come up from a port at once."),
    row("limiter.hold_s", "5", Live, "Seconds for which a port is held, 1 to 65535."),
    row(
        "limiter.meters",
        "true",
        Live,
        "Whether a port is held by a meter where the switch has them, rather than by a rule that drops what no other \
         rule matches.",
    ),
    row(
        "limiter.ahead",
        "false",
        Live,
        "Whether ports of hosts are held from the beginning, where the switch has meters: for a controller so far away that \
         its answer to what is too much comes too late.",
    ),
    row(
        "limiter.ecn",
        "true",
        Live,
        "Whether frames of senders that know of congestion are marked once half of the burst has come up, from \
         OpenFlow 1.2 on.",
    ),
    row(
        "limiter.miss_len",
        "65_535",
        Live,
        "Bytes of a frame that come up from a port that is held or marked; 65535 for all of it.",
    ),
    row("hosts.hosts_max", "131_072", Live, "Hosts that are known, in the whole network; more are not learnt."),
    row("hosts.addrs_max", "8", Live, "IP addresses of a host; more are not learnt."),
    row("hosts.per_port_max", "0", Live, "Hosts at a port; more are not learnt. 0 for as many as may be known."),
    row("hosts.timeout_s", "300", Live, "Seconds of silence after which a host is asked whether it is there."),
    row(
        "hosts.probes",
        "2",
        Live,
        "How often it is asked, a second apart, before it is forgotten; 0 forgets it at once.",
    ),
    row("hosts.proxy", "true", Live, "Whether ARP and neighbour requests for known hosts are answered in their place."),
    row(
        "hosts.guard",
        r#""report""#,
        Live,
        "What is done about a host that claims the address, Ethernet's or IP's, of one that is still there: off, report \
         (it is said in the log), or refuse (its frames are dropped, too).",
    ),
    row(
        "hosts.verify_ms",
        "500",
        Live,
        "Milliseconds in which that other one must answer when it is asked whether it is still there.",
    ),
    row(
        "hosts.moves_per_s_max",
        "5",
        Live,
        "How often a host may move in a second; one that does more often is held where it was for 10 seconds.",
    ),
    row(
        "hosts.requests_per_s_max",
        "1000",
        Live,
        "ARP, neighbour discovery and DHCP frames in a second, for each port; more are dropped.",
    ),
    row(
        "forwarding.match",
        r#""pair""#,
        Live,
        "What a rule matches besides the VLAN: dst (destination address), pair (destination and source), or five_tuple \
         (both and the type; of IP also addresses, protocol and ports).",
    ),
    row(
        "forwarding.both_directions",
        "true",
        Live,
        "Whether the rules for the answers are loaded with those for the first packet.",
    ),
    row("forwarding.priority", "100", Live, "Priority of the rules, 1 to 65535."),
    row(
        "forwarding.idle_timeout_s",
        "60",
        Live,
        "Seconds without a packet after which a rule goes; 0 for never.",
    ),
    row("forwarding.hard_timeout_s", "0", Live, "Seconds after which a rule goes; 0 for never."),
    row(
        "forwarding.waiting_ms",
        "50",
        Live,
        "Milliseconds for which rules that were written are taken to be on their way, beside one and a half times what \
         the switch takes to answer: packets of the flow that come up meanwhile are only sent on. 0: all packets have rules written.",
    ),
    row(
        "forwarding.refused_retry_s",
        "10",
        Live,
        "Seconds for which a switch that refused a rule gets no others; what comes up there is sent on frame by frame. Also \
         how long after a switch that could not match a rule has left or connected again finer rules are tried.",
    ),
    row(
        "forwarding.flood",
        r#""controller""#,
        Live,
        "How frames to all get to where they go: controller (one message to each switch) or tree (one to the first \
         switch, and from there along a tree of links).",
    ),
    row(
        "forwarding.floods_per_s_max",
        "1000",
        Live,
        "Frames to all or to unknown hosts that may come in at one port in a second; more are dropped and counted.",
    ),
    row(
        "forwarding.miss_len",
        "65_535",
        Live,
        "Bytes of a frame that no rule matches that come up, from OpenFlow 1.3 on; 65535 for all of it and no keeping.",
    ),
    row(
        "forwarding.seed",
        "0",
        Live,
        "What the choice among equal ways begins with; another number spreads the same flows otherwise.",
    ),
    row("api.enabled", "true", Restart, "Whether metrics are served over HTTP.")
        .off("no-api", "Serves no metrics over HTTP"),
    row("api.listen", r#""127.0.0.1:8653""#, Restart, "Address at which metrics are served.")
        .flag("api", "ADDR"),
    row("log.level", r#""info""#, Live, "What is logged: off, error, warn, info, debug or trace.")
        .flag("log-level", "LEVEL"),
    row("log.format", r#""text""#, Restart, "How the log is written to standard error: text, or json for an object per line.")
        .flag("log-format", "text|json"),
];
