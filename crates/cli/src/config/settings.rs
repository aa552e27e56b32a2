//! The shape of the configuration, as a file has it. Every key has a value: defaults are in the rows, not here.

use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};

use serde::Deserialize;

use super::values::{
    Address, Addresses, Apps, BriefMillis, Congestion, FloodingName, Format, GuardName,
    HostTimeout, Level, MatchingName, Micros, Millis, Pin, ProbeInterval, RoleName, Seconds,
    SecretText, SocketBuffer, Spoken, WayMatchingName,
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
    pub(super) hub: Hub,
    pub(super) limiter: Limiter,
    pub(super) hosts: Hosts,
    pub(super) forwarding: Forwarding,
    pub(super) api: Api,
    pub(super) log: Log,
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
    pub(super) handshake_timeout_ms: Millis,
    pub(super) echo_interval_s: Seconds,
    pub(super) echo_timeout_s: Seconds,
    pub(super) miss_send_len: u16,
    pub(super) role: RoleName,
    pub(super) multipart_bytes_max: NonZeroUsize,
    pub(super) multipart_total_bytes_max: NonZeroUsize,
    pub(super) malformed_max: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) handshakes_max: NonZeroUsize,
    pub(super) hello_grace_ms: Millis,
    pub(super) handshake_bytes_max: NonZeroUsize,
    pub(super) sessions_max: NonZeroUsize,
    pub(super) tx_backlog_max: NonZeroUsize,
    pub(super) unread_max_ms: Millis,
    pub(super) mail_max: NonZeroUsize,
    pub(super) stuck_timeout_s: Seconds,
    pub(super) duplicate_timeout_s: Seconds,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Socket {
    pub(super) congestion: Congestion,
    pub(super) send_buffer: SocketBuffer,
    pub(super) recv_buffer: SocketBuffer,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) probe_interval_ms: ProbeInterval,
    pub(super) probes_per_second: NonZeroU32,
    pub(super) lost_probes: NonZeroU32,
    pub(super) settle_ms: Millis,
    pub(super) shared_interval_ms: ProbeInterval,
    pub(super) hold_s: Seconds,
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
    pub(super) matching: MatchingName,
    pub(super) miss_len: u16,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hub {
    pub(super) miss_len: u16,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limiter {
    pub(super) port_rate: u32,
    pub(super) burst: NonZeroU32,
    pub(super) hold_s: NonZeroU16,
    pub(super) meters: bool,
    pub(super) ahead: bool,
    pub(super) ecn: bool,
    pub(super) miss_len: u16,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the key is `hosts.hosts_max`, as others have one")]
pub(super) struct Hosts {
    pub(super) hosts_max: NonZeroU32,
    pub(super) addrs_max: NonZeroU16,
    pub(super) per_port_max: u32,
    pub(super) timeout_s: Seconds,
    pub(super) probes: u8,
    pub(super) proxy: bool,
    pub(super) guard: GuardName,
    pub(super) verify_ms: Millis,
    pub(super) moves_per_s_max: NonZeroU32,
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
    pub(super) waiting_ms: BriefMillis,
    pub(super) refused_retry_s: Seconds,
    pub(super) flood: FloodingName,
    pub(super) floods_per_s_max: u32,
    pub(super) miss_len: u16,
    pub(super) seed: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Api {
    pub(super) enabled: bool,
    pub(super) listen: Address,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    pub(super) level: Level,
    pub(super) format: Format,
}
