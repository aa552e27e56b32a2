//! Keys of earlier versions: what each is called now, or the constant that took its place.

use Fate::{Constant, Renamed};

/// What became of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// It has another name.
    Renamed(&'static str),
    /// It has another name there and takes other values: which to write.
    Replaced(&'static str, &'static str),
    /// It is a constant now, with this value.
    Constant(&'static str),
}

impl Fate {
    /// The key to use instead.
    #[cfg(test)]
    pub(super) fn new_key(self) -> Option<&'static str> {
        match self {
            Renamed(new) | Self::Replaced(new, _) => Some(new),
            Constant(_) => None,
        }
    }
}

/// Every key that was removed since version 0.1.0.
pub(super) const REMOVED: &[(&str, Fate)] = &[
    ("session.handshake_timeout_ms", Renamed("experimental.handshake_timeout_ms")),
    ("session.multipart_bytes_max", Constant("4 MiB per switch")),
    ("session.multipart_total_bytes_max", Constant("64 MiB per worker")),
    ("session.malformed_max", Constant("1000 messages")),
    ("limits.hello_grace_ms", Constant("500 ms")),
    ("limits.handshake_bytes_max", Constant("256 KiB")),
    ("limits.sessions_max", Renamed("limits.switches_max")),
    ("limits.tx_backlog_max", Renamed("limits.backlog_bytes_max")),
    ("limits.unread_max_ms", Constant("2000 ms")),
    ("limits.mail_max", Constant("4096 messages")),
    ("limits.stuck_timeout_s", Constant("30 s")),
    ("limits.duplicate_timeout_s", Constant("2 s")),
    ("socket.send_buffer", Constant("the kernel's choice")),
    ("socket.recv_buffer", Constant("the kernel's choice")),
    ("topology.probes_per_second", Renamed("topology.probes_per_s_max")),
    ("topology.lost_probes", Constant("3 probes")),
    ("topology.settle_ms", Renamed("experimental.settle_ms")),
    ("topology.shared_interval_ms", Renamed("experimental.shared_interval_ms")),
    ("topology.hold_s", Constant("30 s")),
    ("learning.matching", Renamed("learning.match")),
    ("learning.miss_len", Renamed("session.miss_send_len")),
    ("hub.miss_len", Renamed("session.miss_send_len")),
    ("limiter.port_rate", Renamed("limiter.packets_per_s_max")),
    ("limiter.burst", Renamed("limiter.burst_packets")),
    ("limiter.hold_s", Renamed("limiter.block_s")),
    ("limiter.ahead", Renamed("limiter.proactive")),
    ("limiter.miss_len", Renamed("session.miss_send_len")),
    ("hosts.addrs_max", Constant("8 addresses per host")),
    ("hosts.probes", Constant("2 probes")),
    ("hosts.proxy", Renamed("hosts.arp_proxy")),
    ("hosts.guard", Renamed("hosts.address_conflicts")),
    ("hosts.verify_ms", Constant("500 ms")),
    ("hosts.moves_per_s_max", Constant("5 moves per second")),
    ("forwarding.waiting_ms", Renamed("experimental.path_pending_ms")),
    ("forwarding.refused_retry_s", Renamed("experimental.refused_retry_s")),
    ("forwarding.miss_len", Renamed("session.miss_send_len")),
    ("forwarding.seed", Constant("0")),
    ("api.enabled", Fate::Replaced("api.listen", "\"off\" serves no metrics")),
];

/// What to say about `key` if an earlier version had it.
pub(super) fn fate(key: &str) -> Option<String> {
    let (_, fate) = REMOVED.iter().find(|(removed, _)| *removed == key)?;
    Some(match fate {
        Renamed(new) => format!("`{key}` is called `{new}` now"),
        Fate::Replaced(new, hint) => format!("`{key}` was replaced by `{new}`: {hint}"),
        Constant(value) => format!("`{key}` is no longer a key: it is a constant ({value})"),
    })
}

/// Whether `name` is a section that had keys and has none any more.
pub(super) fn is_section(name: &str) -> bool {
    REMOVED.iter().any(|(key, _)| key.rsplit_once('.').is_some_and(|(section, _)| section == name))
}
