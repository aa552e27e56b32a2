//! The shape of the configuration, as a file has it. Every key has a value: defaults are in the rows, not here.

use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};

use serde::Deserialize;

use super::values::{
    Addresses, ApiAddress, Apps, BriefMillis, Congestion, FloodingName, Format, GuardName,
    HostTimeout, Level, MatchingName, Micros, Millis, MissSendLen, Pin, ProbeInterval, RoleName,
    Seconds, SecretText, Spoken, WayMatchingName,
};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) listen: Addresses,
    pub(super) apps: Apps,
    pub(super) workers: Workers,
    pub(super) session: Session,
    pub(super) limits: Limits,
    pub(super) socket: Socket,
    pub(super) topology: Topology,
    pub(super) learning: Learning,
    pub(super) limiter: Limiter,
    pub(super) hosts: Hosts,
    pub(super) forwarding: Forwarding,
    pub(super) api: Api,
    pub(super) log: Log,
    pub(super) experimental: Experimental,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workers {
    pub(super) threads: usize,
    pub(super) pin: Pin,
    pub(super) spin_us: Micros,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Session {
    pub(super) versions: Spoken,
    pub(super) echo_interval_s: Seconds,
    pub(super) echo_timeout_s: Seconds,
    pub(super) miss_send_len: MissSendLen,
    pub(super) role: RoleName,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_field_names,
    reason = "the keys of a limit end with `_max` in every section"
)]
pub(super) struct Limits {
    pub(super) handshakes_max: NonZeroUsize,
    pub(super) switches_max: NonZeroUsize,
    pub(super) backlog_bytes_max: NonZeroUsize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Socket {
    pub(super) congestion: Congestion,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) probe_interval_ms: ProbeInterval,
    pub(super) probes_per_s_max: NonZeroU32,
    pub(super) secret: SecretText,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Learning {
    pub(super) hosts_max: NonZeroU32,
    pub(super) host_timeout_s: HostTimeout,
    pub(super) idle_timeout_s: u16,
    pub(super) hard_timeout_s: u16,
    /// Not 0: that is the rule that sends misses up.
    pub(super) priority: NonZeroU16,
    #[serde(rename = "match")]
    pub(super) matching: MatchingName,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limiter {
    pub(super) packets_per_s_max: u32,
    pub(super) burst_packets: NonZeroU32,
    pub(super) block_s: NonZeroU16,
    pub(super) meters: bool,
    pub(super) proactive: bool,
    pub(super) ecn: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the key is `hosts.hosts_max`, as others have one")]
pub(super) struct Hosts {
    pub(super) hosts_max: NonZeroU32,
    pub(super) per_port_max: u32,
    pub(super) timeout_s: Seconds,
    pub(super) arp_proxy: bool,
    pub(super) address_conflicts: GuardName,
    pub(super) requests_per_s_max: NonZeroU32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forwarding {
    #[serde(rename = "match")]
    pub(super) matching: WayMatchingName,
    pub(super) both_directions: bool,
    /// Not 0: that is the rule that sends misses up.
    pub(super) priority: NonZeroU16,
    pub(super) idle_timeout_s: u16,
    pub(super) hard_timeout_s: u16,
    pub(super) flood: FloodingName,
    pub(super) floods_per_s_max: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Api {
    pub(super) listen: ApiAddress,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    pub(super) level: Level,
    pub(super) format: Format,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experimental {
    pub(super) handshake_timeout_ms: Millis,
    pub(super) settle_ms: Millis,
    pub(super) shared_interval_ms: ProbeInterval,
    pub(super) path_pending_ms: BriefMillis,
    pub(super) refused_retry_s: Seconds,
}
