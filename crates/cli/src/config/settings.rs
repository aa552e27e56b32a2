//! Every key of the configuration: its section, type, default and documentation.

use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};

use sluice_apps::forwarding::Flooding;
use sluice_apps::forwarding::multicast::UnregisteredGroups;
use sluice_apps::hosts::ConflictPolicy;
use sluice_apps::topology::UnexpectedLinks;
use sluice_apps::{forwarding, learning};
use sluice_engine::WorkerEngine;
use sluice_northbound::tokens::Role as ApiRole;
use sluice_openflow::Role;
use tracing_subscriber::filter::LevelFilter;

use super::tls::TlsListenerSettings;
use super::values::{
    ApiAddress, Apps, ByName, ClientCertificates, CongestionName, ForwardingPriority, HostTimeout,
    LearningPriority, ListenAddresses, LogFormat, MembershipTime, Micros, Millis, MissSendLen,
    OfferedVersions, PinSetting, ProbeInterval, Seconds, SecretText, StaticBundles, TimeoutMillis,
    VlanRange, WorkerCount,
};

/// A whole configuration. Keys and sections are in the order of the example file.
#[derive(Debug, confique::Config)]
pub(super) struct Settings {
    /// Addresses on which switches are accepted. Each is ADDRESS:PORT, NAME:PORT, or a port alone for all addresses. The
    /// IPv6 wildcard address accepts IPv4 as well; with port 0 the system chooses a port.
    #[config(default = ["[::]:6653", "[::]:6633"])]
    pub(super) listen: ListenAddresses,

    /// Applications, in the order in which they handle a packet. The default three are for any network; limiter may be put
    /// before them. learning (a learning switch for networks without loops) and hub are used alone.
    #[config(default = ["topology", "hosts", "forwarding"])]
    pub(super) apps: Apps,

    #[config(nested)]
    pub(super) tls: TlsSettings,
    #[config(nested)]
    pub(super) workers: WorkerSettings,
    #[config(nested)]
    pub(super) session: SessionSettings,
    #[config(nested)]
    pub(super) limits: LimitSettings,
    #[config(nested)]
    pub(super) socket: SocketSettings,
    #[config(nested)]
    pub(super) topology: TopologySettings,
    #[config(nested)]
    pub(super) hosts: HostSettings,
    #[config(nested)]
    pub(super) forwarding: ForwardingSettings,
    #[config(nested)]
    pub(super) learning: LearningSettings,
    #[config(nested)]
    pub(super) limiter: LimiterSettings,
    #[config(nested)]
    pub(super) state: StateSettings,
    #[config(nested)]
    pub(super) policies: PolicySettings,
    #[config(nested)]
    pub(super) api: ApiSettings,
    #[config(nested)]
    pub(super) log: LogSettings,
    #[config(nested)]
    pub(super) optimisations: OptimisationSettings,
    #[config(nested)]
    pub(super) experimental: ExperimentalSettings,
}

#[derive(Debug, confique::Config)]
pub(super) struct TlsSettings {
    /// Addresses on which switches are accepted over TLS, written as those of listen; none by default. They must differ from those of
    /// listen, which may be empty then, and none may include one of those.
    #[config(default = [])]
    pub(super) listen: ListenAddresses,

    /// PEM file with the certificate of the controller, followed by those between it and the authority that the switches trust, if any. The
    /// file is read again at SIGHUP. In a configuration file, a relative path starts at the folder of that file.
    #[config(default = "")]
    pub(super) certificate: String,

    /// PEM file with the private key of the certificate. The file is read again at SIGHUP. In a configuration file, a relative path starts
    /// at the folder of that file.
    #[config(default = "")]
    pub(super) key: String,

    /// PEM file with the certificates of the authorities that issue those of switches. The file is read again at SIGHUP. In a configuration
    /// file, a relative path starts at the folder of that file.
    #[config(default = "")]
    pub(super) client_ca: String,

    /// Whether switches must have a certificate: required, or none (any peer that reaches the port is accepted).
    #[config(default = "required")]
    pub(super) client_auth: ByName<ClientCertificates>,

    /// Whether the certificate of a switch must name its datapath id: as a DNS name, or as the first word of the common name, of the
    /// form dpid-0000000000000001 (16 hex digits).
    #[config(default = false)]
    pub(super) bind_datapath_id: bool,

    /// Further listeners with settings of their own, each as a section [[tls.listeners]] with listen, and with those of the other keys above
    /// that differ.
    #[config(default = [])]
    pub(super) listeners: Vec<TlsListenerSettings>,
}

#[derive(Debug, confique::Config)]
pub(super) struct WorkerSettings {
    /// Worker threads, at most 1024; 0 starts one per available core.
    #[config(default = 0)]
    pub(super) threads: WorkerCount,

    /// Whether each worker is bound to a core of its own, or the list of cores to bind workers to.
    #[config(default = true)]
    pub(super) pin: PinSetting,

    /// Microseconds for which an idle worker polls its connections before it sleeps. A few hundred shorten response times
    /// by tens of microseconds and keep the core busy; 0 sleeps at once.
    #[config(default = 0)]
    pub(super) spin_us: Micros,

    /// How workers receive and send: epoll (a system call for each read and each write), uring (`io_uring`: one system call for all
    /// small reads and writes of an iteration; needs Linux 6.1), kernel (as epoll, and the kernel answers in the place of the
    /// applications; needs Linux 6.16 and privileges), or auto (as kernel while little is waiting, or else as epoll). docs/engines.md
    /// compares them.
    #[config(default = "epoll")]
    pub(super) engine: ByName<WorkerEngine>,

    /// Whether switches move to another worker if theirs has been nearly always busy for three seconds and the other one much less.
    /// docs/workers.md says when.
    #[config(default = true)]
    pub(super) balancing: bool,
}

#[derive(Debug, confique::Config)]
pub(super) struct SessionSettings {
    /// OpenFlow versions offered to switches. A session uses the highest version that both sides support. Unless all are offered,
    /// HELLO waits for the switch's, for 100 ms at most.
    #[config(default = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"])]
    pub(super) versions: OfferedVersions,

    /// Seconds without a message from a switch after which an echo request is sent to it.
    #[config(default = 5)]
    pub(super) echo_interval_s: Seconds,

    /// Seconds without an echo reply after which a switch is disconnected.
    #[config(default = 10)]
    pub(super) echo_timeout_s: Seconds,

    /// Controller role to request from switches of OpenFlow 1.2 and later: none (no request), equal, master or slave.
    #[config(default = "none")]
    pub(super) role: ByName<Option<Role>>,

    /// Bytes of a packet that a switch sends to the controller while it buffers the packet. auto: 128 bytes before
    /// OpenFlow 1.3, and the whole packet without buffering (`OFPCML_NO_BUFFER`) from 1.3 on. A number applies to all
    /// versions; 65535 is the whole packet without buffering.
    #[config(default = "auto")]
    pub(super) miss_send_len: MissSendLen,
}

#[derive(Debug, confique::Config)]
pub(super) struct LimitSettings {
    /// Connections that may be in the handshake, or wait for a busy worker, at one time. For one more, one is closed: of the listener that has the most, and there of
    /// the address that has the most, the one that has been silent for longest.
    #[config(default = 4096)]
    pub(super) handshakes_max: NonZeroUsize,

    /// Whether the kernel drops SYNs of an address that opens more than 1024 connections at once, or then more than 500 per second, before it
    /// spends anything on them. Not for networks in which others share an address, a NAT or an IPv6 /64 with switches (see docs/operations.md). Needs
    /// Linux 5.12 and the capabilities `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`.
    #[config(default = false)]
    pub(super) syn_filter: bool,

    /// Switches connected at one time. One more is refused, or replaces one of the address that has the most.
    #[config(default = 12_288)]
    pub(super) switches_max: NonZeroUsize,

    /// Ports of all switches. A switch with more than are left replaces those of the address that has the most, or is refused.
    #[config(default = 524_288)]
    pub(super) ports_max: NonZeroUsize,

    /// Bytes waiting to be sent to a switch above which no more messages are read from it.
    #[config(default = 262_144)]
    pub(super) backlog_bytes_max: NonZeroUsize,
}

#[derive(Debug, confique::Config)]
pub(super) struct SocketSettings {
    /// TCP congestion control of connections to switches, such as cubic or bbr; system leaves it to the system. The default
    /// falls back to system where cubic is not available.
    #[config(default = "cubic")]
    pub(super) congestion: CongestionName,
}

#[derive(Debug, confique::Config)]
pub(super) struct TopologySettings {
    /// Milliseconds between two LLDP probes of a port; at least 250. A link is down after three lost probes.
    #[config(default = 1000)]
    pub(super) probe_interval_ms: ProbeInterval,

    /// LLDP probes that a worker thread sends per second at most; with more ports, each is probed less often.
    #[config(default = 3000)]
    pub(super) probes_per_s_max: NonZeroU32,

    /// Key that signs LLDP probes: 32 hex digits, the same for all controllers of a network. Empty: a random key at each
    /// start.
    #[config(default = "")]
    pub(super) secret: SecretText,

    /// What to do when a link appears at a port that has led to hosts for long, so that hosts may be relaying probes: report (log it,
    /// and use the link if it stays), or refuse (take it for an unmanaged segment).
    #[config(default = "report")]
    pub(super) unexpected_links: ByName<UnexpectedLinks>,

    /// Ports of a switch that lead to one device, which aggregates links without LACP: for each such device the datapath id, a
    /// colon, and the ports with + between them, such as 00000000000000a1:3+4. The first port that is up is used; what arrives
    /// at the others counts as received there.
    #[config(default = [])]
    pub(super) bundles: StaticBundles,
}

#[derive(Debug, confique::Config)]
pub(super) struct HostSettings {
    /// Hosts in the host table, in the whole network. New ones replace hosts that do not answer a probe, or are not learned.
    #[config(default = 131_072)]
    pub(super) hosts_max: NonZeroU32,

    /// Hosts learned at one port; 0 sets no limit. New ones replace hosts that do not answer a probe, or are not learned.
    #[config(default = 1024)]
    pub(super) per_port_max: u32,

    /// Seconds of silence after which a host is probed; a host that does not answer is removed.
    #[config(default = 300)]
    pub(super) timeout_s: Seconds,

    /// Whether the controller answers ARP requests and IPv6 neighbor solicitations for known hosts.
    #[config(default = true)]
    pub(super) arp_proxy: bool,

    /// What to do when a host claims the MAC or IP address of another host that is still there: off (nothing), report (log
    /// it and keep the location and the address of the other host), or refuse (also drop the packets with the claim).
    #[config(default = "refuse")]
    pub(super) address_conflicts: ByName<ConflictPolicy>,

    /// ARP, neighbor discovery and DHCP packets handled per second and port; more are dropped.
    #[config(default = 1000)]
    pub(super) requests_per_s_max: NonZeroU32,

    /// Whether the controller answers devices that aggregate links by LACP, so that they use one of these links and keep
    /// the others for when it fails.
    #[config(default = true)]
    pub(super) lacp: bool,
}

#[derive(Debug, confique::Config)]
pub(super) struct ForwardingSettings {
    /// What a flow entry matches besides the VLAN: dst (destination MAC address), pair (destination and source), or
    /// five-tuple (both, and the Ethernet type; for IP also addresses, protocol and ports).
    #[config(default = "pair", layer_attr(serde(rename = "match")))]
    pub(super) match_: ByName<forwarding::Matching>,

    /// Whether the path for the replies is installed together with the path of the first packet.
    #[config(default = true)]
    pub(super) both_directions: bool,

    /// Priority of the flow entries, 7 to 65529.
    #[config(default = 100)]
    pub(super) priority: ForwardingPriority,

    /// Seconds without a matching packet after which a flow entry expires; 0 disables this.
    #[config(default = 60)]
    pub(super) idle_timeout_s: u16,

    /// Seconds after which a flow entry expires in any case; 0 disables this.
    #[config(default = 0)]
    pub(super) hard_timeout_s: u16,

    /// How broadcasts and multicasts reach all edge ports: controller (a packet-out to each switch), tree (one
    /// packet-out, and from there along a spanning tree in the switches), or auto (tree while there are many).
    #[config(default = "auto")]
    pub(super) flood: ByName<Flooding>,

    /// Broadcast, multicast and unknown unicast packets flooded per second and port; more are dropped.
    #[config(default = 1000)]
    pub(super) floods_per_s_max: u32,

    /// Whether IP multicasts go only to ports with members of their group and to routers, as IGMP and MLD messages show
    /// (snooping).
    #[config(default = false)]
    pub(super) multicast_snooping: bool,

    /// Seconds without a report after which a group has no members at a port, 30 to 3600. The controller sends queries at
    /// intervals of half of this time less five seconds (RFC 3376 §8.4).
    #[config(default = 260)]
    pub(super) multicast_membership_s: MembershipTime,

    /// Where IP multicasts to groups without members go with `multicast_snooping`: flood (to all edge ports), or router-ports.
    #[config(default = "flood")]
    pub(super) multicast_unregistered: ByName<UnregisteredGroups>,

    /// Seconds between two verifications of the flow entries of a switch, in which those that are wrong are deleted; 0
    /// disables them.
    #[config(default = 300)]
    pub(super) verify_interval_s: Seconds,
}

#[derive(Debug, confique::Config)]
pub(super) struct LearningSettings {
    /// What a flow entry matches besides the VLAN: dst (destination MAC address), pair (destination and source), or
    /// port-pair (both and the ingress port, so that the controller sees at once when a host moves).
    #[config(default = "port-pair", layer_attr(serde(rename = "match")))]
    pub(super) match_: ByName<learning::Matching>,

    /// Hosts in the MAC address table of each switch.
    #[config(default = 131_072)]
    pub(super) hosts_max: NonZeroU32,

    /// Seconds without a packet-in from a host after which it is removed from the table; at most 64800.
    #[config(default = 300)]
    pub(super) host_timeout_s: HostTimeout,

    /// Seconds without a matching packet after which a flow entry expires; 0 disables this.
    #[config(default = 60)]
    pub(super) idle_timeout_s: u16,

    /// Seconds after which a flow entry expires in any case; 0 disables this.
    #[config(default = 0)]
    pub(super) hard_timeout_s: u16,

    /// Priority of the flow entries, 1 to 65531.
    #[config(default = 100)]
    pub(super) priority: LearningPriority,
}

#[derive(Debug, confique::Config)]
pub(super) struct LimiterSettings {
    /// Packet-ins per second from one port above which the port is blocked; 0 disables the limiter.
    #[config(default = 1000)]
    pub(super) packets_per_s_max: u32,

    /// Packet-ins that a port may send at once, in a burst.
    #[config(default = 500)]
    pub(super) burst_packets: NonZeroU32,

    /// Seconds for which a port is blocked, 1 to 65535.
    #[config(default = 5)]
    pub(super) block_s: NonZeroU16,

    /// Whether a port is blocked by a meter, which lets `packets_per_s_max` through, where the switch supports meters;
    /// otherwise by a flow entry that drops table misses.
    #[config(default = true)]
    pub(super) meters: bool,

    /// Whether every edge port gets its meter as soon as it is known, where the switch supports meters. For a controller so
    /// far away that a port would send too much before it is blocked.
    #[config(default = false)]
    pub(super) proactive: bool,

    /// Whether packets of ECN-capable senders are marked (congestion experienced, RFC 3168) once half of the burst is used,
    /// from OpenFlow 1.2 on.
    #[config(default = true)]
    pub(super) ecn: bool,
}

#[derive(Debug, confique::Config)]
pub(super) struct StateSettings {
    /// Directory in which static entries and names are stored. Empty: /var/lib/sluice if it can be written, or else sluice below
    /// `$XDG_STATE_HOME` or ~/.local/state. It is made when something is declared. In a configuration file, a relative path starts at the
    /// folder of that file.
    #[config(default = "")]
    pub(super) dir: String,
}

#[derive(Debug, confique::Config)]
pub(super) struct PolicySettings {
    /// First and last of the VLAN ids with which switches tag packets of policies between each other. Each policy has one, and a further one
    /// while it is replaced. Nothing else in the network may use them.
    #[config(default = [4000, 4031])]
    pub(super) vlans: VlanRange,
}

#[derive(Debug, confique::Config)]
pub(super) struct ApiSettings {
    /// Address on which metrics and the API are served over HTTP, or off. The address is ADDRESS:PORT, NAME:PORT, or a port alone for
    /// 127.0.0.1.
    #[config(default = "127.0.0.1:8653")]
    pub(super) listen: ApiAddress,

    /// Path of a Unix socket on which they are served as well, for the user and the group of the controller; empty for none. In a
    /// configuration file, a relative path starts at the folder of that file.
    #[config(default = "")]
    pub(super) socket: String,

    /// PEM file with the certificate of api.listen, which serves HTTPS then, followed by those between it and the authority that clients
    /// trust, if any. The file is read again at SIGHUP. In a configuration file, a relative path starts at the folder of that file.
    #[config(default = "")]
    pub(super) certificate: String,

    /// PEM file with the private key of the certificate. The file is read again at SIGHUP. In a configuration file, a relative path starts
    /// at the folder of that file.
    #[config(default = "")]
    pub(super) key: String,

    /// File with the hashes of tokens, which `sluice token` writes; empty for none. The file is read again when it changes. In a
    /// configuration file, a relative path starts at the folder of that file.
    #[config(default = "")]
    pub(super) tokens: String,

    /// Whether other machines may send tokens without TLS, where everybody on the path can read them.
    #[config(default = false)]
    pub(super) tokens_without_tls: bool,

    /// What programs on this machine may do without a token: none, read, operate or administer.
    #[config(default = "administer")]
    pub(super) local_role: ByName<Option<ApiRole>>,

    /// Where each write is recorded: log, the absolute path of a file with one JSON object per line, or off. The file is opened
    /// again at SIGHUP.
    #[config(default = "log")]
    pub(super) audit: String,

    /// Whether a write is refused if it cannot be recorded in the file first; otherwise the loss is logged and counted.
    #[config(default = false)]
    pub(super) audit_required: bool,
}

#[derive(Debug, confique::Config)]
pub(super) struct LogSettings {
    /// Lowest level that is logged: off, error, warn, info, debug or trace.
    #[config(default = "info")]
    pub(super) level: ByName<LevelFilter>,

    /// Format of the log on standard error: text, or json (one object per line).
    #[config(default = "text")]
    pub(super) format: ByName<LogFormat>,
}

/// What makes the controller faster and can be switched off, to measure what it is worth.
#[derive(Debug, confique::Config)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(super) struct OptimisationSettings {
    /// Whether all messages that wait for a switch are sent in one write, so that the packet-ins of one read are answered by one
    /// write. off: one write for each message. workers.engine must not be uring then, which joins writes itself.
    /// docs/optimisations.md has this and the following keys.
    #[config(default = true)]
    pub(super) output_batching: bool,

    /// Whether all packet-ins of one read are passed to the application at once. off: one at a time.
    #[config(default = true)]
    pub(super) input_batching: bool,

    /// Whether the bytes of a read are adapted to each switch: 2 KiB at first, and those with little to read before others; up to
    /// 128 KiB of switches that send much. off: up to 128 KiB of every switch, in the order in which they become readable; workers.engine
    /// must not be uring then.
    #[config(default = true)]
    pub(super) adaptive_reads: bool,

    /// Whether learning prefetches the table entries for the next packet-ins of a read if its tables exceed the cache.
    #[config(default = true)]
    pub(super) prefetching: bool,

    /// Whether learning and forwarding answer packet-ins by messages that were encoded once, in which they replace addresses and ports.
    /// off: each message is encoded anew, and with workers.engine = "kernel" or "auto" the kernel answers nothing.
    #[config(default = true)]
    pub(super) templates: bool,

    /// Whether each worker processes what it has received itself. off: workers put it into a queue that they share, and each processes what is
    /// first there. workers.engine must not be kernel or auto then.
    #[config(default = true)]
    pub(super) run_to_completion: bool,

    /// Whether tables of 2 MiB and more are in huge pages. off: small pages for all memory, as with the system's allocator.
    #[config(default = true)]
    pub(super) huge_pages: bool,
}

/// Keys for tests, measurements and experiments, which may change without notice. They are left out of the example file.
#[derive(Debug, confique::Config)]
pub(super) struct ExperimentalSettings {
    /// Milliseconds in which a peer must complete the handshake.
    #[config(default = 10_000)]
    pub(super) handshake_timeout_ms: TimeoutMillis,

    /// Milliseconds without a probe after which a port counts as an edge port; the longest round trip to a switch if that
    /// is more.
    #[config(default = 250)]
    pub(super) settle_ms: TimeoutMillis,

    /// Milliseconds between two probes for unmanaged segments that join several edge ports; at least 250.
    #[config(default = 5000)]
    pub(super) shared_interval_ms: ProbeInterval,

    /// Milliseconds for which an installed path counts as pending, in addition to one and a half round trips to the switch.
    /// Packet-ins of its flow are forwarded meanwhile, and the path is not installed again. 0 installs it for each
    /// packet-in.
    #[config(default = 50)]
    pub(super) path_pending_ms: Millis,

    /// Seconds for which a switch that refused a flow entry gets no others, and after which a finer match is tried again
    /// once no connected switch has refused it.
    #[config(default = 10)]
    pub(super) refused_retry_s: Seconds,

    /// Milliseconds after which every switch moves to the next worker, again and again; 0 for never.
    #[config(default = 0)]
    pub(super) move_interval_ms: Millis,
}
