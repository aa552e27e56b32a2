//! Keys of earlier versions, with their new names or the constants that replaced them.

use Replacement::{Constant, Key, Value};

#[derive(Debug, Clone, Copy)]
pub(super) enum Replacement {
    /// The key was renamed.
    Key(&'static str),
    /// A value of another key has the same effect.
    Value { key: &'static str, value: &'static str },
    /// The key became a constant.
    Constant(&'static str),
}

/// Every key that was removed or renamed since version 0.1.0.
pub(super) const REMOVED: &[(&str, Replacement)] = &[
    ("session.handshake_timeout_ms", Key("experimental.handshake_timeout_ms")),
    ("session.multipart_bytes_max", Constant("4 MiB per switch")),
    ("session.multipart_total_bytes_max", Constant("64 MiB per worker")),
    ("session.malformed_max", Constant("1000 messages")),
    ("limits.hello_grace_ms", Constant("500 ms")),
    ("limits.handshake_bytes_max", Constant("256 KiB")),
    ("limits.sessions_max", Key("limits.switches_max")),
    ("limits.tx_backlog_max", Key("limits.backlog_bytes_max")),
    ("limits.unread_max_ms", Constant("2000 ms")),
    ("limits.mail_max", Constant("4096 messages")),
    ("limits.stuck_timeout_s", Constant("30 s")),
    ("limits.duplicate_timeout_s", Constant("2 s")),
    ("socket.send_buffer", Constant("the kernel's choice")),
    ("socket.recv_buffer", Constant("the kernel's choice")),
    ("topology.probes_per_second", Key("topology.probes_per_s_max")),
    ("topology.lost_probes", Constant("3 probes")),
    ("topology.settle_ms", Key("experimental.settle_ms")),
    ("topology.shared_interval_ms", Key("experimental.shared_interval_ms")),
    ("topology.hold_s", Constant("30 s")),
    ("learning.matching", Key("learning.match")),
    ("learning.miss_len", Key("session.miss_send_len")),
    ("hub.miss_len", Key("session.miss_send_len")),
    ("limiter.port_rate", Key("limiter.packets_per_s_max")),
    ("limiter.burst", Key("limiter.burst_packets")),
    ("limiter.hold_s", Key("limiter.block_s")),
    ("limiter.ahead", Key("limiter.proactive")),
    ("limiter.miss_len", Key("session.miss_send_len")),
    ("hosts.addrs_max", Constant("8 addresses per host")),
    ("hosts.probes", Constant("2 probes")),
    ("hosts.proxy", Key("hosts.arp_proxy")),
    ("hosts.guard", Key("hosts.address_conflicts")),
    ("hosts.verify_ms", Constant("500 ms")),
    ("hosts.moves_per_s_max", Constant("5 moves per second")),
    ("forwarding.waiting_ms", Key("experimental.path_pending_ms")),
    ("forwarding.refused_retry_s", Key("experimental.refused_retry_s")),
    ("forwarding.miss_len", Key("session.miss_send_len")),
    ("forwarding.seed", Constant("0")),
    ("api.enabled", Value { key: "api.listen", value: "\"off\"" }),
];

/// The error message that names the replacement of the key `path` of an earlier version.
pub(super) fn replacement(path: &str) -> Option<String> {
    let (_, replacement) = REMOVED.iter().find(|(removed, _)| *removed == path)?;
    Some(match replacement {
        Key(new) => format!("`{path}` was renamed to `{new}`"),
        Value { key, value } => {
            format!("`{path}` was removed; set `{key} = {value}` instead of false")
        }
        Constant(value) => format!("`{path}` was removed; it is a constant now ({value})"),
    })
}

/// Whether `name` is a section of an earlier version.
pub(super) fn is_section(name: &str) -> bool {
    REMOVED
        .iter()
        .any(|(path, _)| path.rsplit_once('.').is_some_and(|(section, _)| section == name))
}
