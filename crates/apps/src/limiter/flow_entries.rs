//! The flow entries and meters of the limiter.

use std::time::Duration;

use sluice_openflow::{
    Action, BandTypes, EncodeError, Encoder, EtherType, Ethernet, Field, FieldId, FlowMod,
    FlowModCommand, Instruction, MacAddr, Message, MeterBand, MeterCapabilities, MeterCommand,
    MeterFeatures, MeterFlags, MeterId, MeterMod, PortNo,
};
use sluice_sdk::LINK_PROBE_TYPES;
use sluice_sdk::flow_space::{MISS_LIMITS, PROBE_LIMITS};

use super::Config;
use super::capacity::SHARE_MIN;
use super::leaky_bucket::Rate;

const COOKIE: u64 = MISS_LIMITS.cookie;

/// Above the table-miss entry and below all others: packets that match another flow entry are not limited.
const MARK_PRIORITY: u16 = MISS_LIMITS.priority();

/// Above the entries that mark, so that a block also holds for ECN-capable senders.
const LIMIT_PRIORITY: u16 = MARK_PRIORITY + 1;

/// Above that: one host of a port may be limited to less than the port.
const HOST_PRIORITY: u16 = LIMIT_PRIORITY + 1;

/// Above all others: the entries by which topology gets link probes are just below.
const PROBES_PRIORITY: u16 = PROBE_LIMITS.priority();

/// Link probes that a port may send per second, and at once: twice what topology processes. Ports that share an unmanaged
/// segment receive each other's probes.
const PROBES_PER_S_MAX: u32 = 128;

/// Codepoints of ECN-capable senders: ECT(1) and ECT(0). RFC 3168 §5.
const ECN_CAPABLE: [u128; 2] = [1, 2];

/// The codepoint "congestion experienced". RFC 3168 §5.
const ECN_CONGESTED: u128 = 3;

/// Whether a switch supports meters that drop by packet rate.
pub(super) fn supports_meters(features: &MeterFeatures) -> bool {
    features.max_meter > 0
        && features.band_types.contains(BandTypes::DROP)
        && features.capabilities.contains(MeterCapabilities::PKTPS)
}

/// Packet-ins of a port that are limited together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketKind {
    /// Table misses.
    Misses,
    /// Table misses of one host of a port, which may send half of what the port may send.
    HostMisses(MacAddr),
    /// Frames of the types of link probes. A flow entry above all that forward sends them to the controller, so the entries
    /// that limit them are above that one.
    Probes,
}

/// How many packet-ins of a kind a port may send.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketRateLimit {
    rate: u32,
    burst: u32,
}

impl PacketRateLimit {
    /// The rate over a control link with this round-trip time.
    pub(super) fn rate(self, rtt: Duration) -> Rate {
        Rate::new(self.rate, self.burst, rtt)
    }

    /// Packet-ins per second.
    pub(super) const fn packets_per_s(self) -> u32 {
        self.rate
    }

    /// Of table misses: at most a share of what a saturated control link carries, and at once what it carries in a quarter of
    /// a second.
    #[must_use]
    pub(super) fn at_most(self, kind: PacketKind, share: u32) -> Self {
        let of_port = Self { rate: share, burst: (share / 4).max(SHARE_MIN) };
        let share = if kind == PacketKind::Misses { of_port } else { of_port.half() };
        Self { rate: self.rate.min(share.rate), burst: self.burst.min(share.burst) }
    }

    fn half(self) -> Self {
        Self { rate: (self.rate / 2).max(1), burst: (self.burst / 2).max(1) }
    }

    fn meter_mod(self, command: MeterCommand, meter: u32) -> Message {
        Message::MeterMod(MeterMod {
            command,
            flags: MeterFlags::PKTPS | MeterFlags::BURST,
            meter_id: MeterId(meter),
            bands: vec![MeterBand::Drop { rate: self.rate, burst_size: self.burst }],
        })
    }
}

impl PacketKind {
    /// The kind of a frame.
    pub(super) fn of(eth: &Ethernet<'_>) -> Self {
        if LINK_PROBE_TYPES.contains(&eth.ethertype) { Self::Probes } else { Self::Misses }
    }

    /// Its name in log lines.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Misses | Self::HostMisses(_) => "table misses",
            Self::Probes => "LLDP",
        }
    }

    /// How many packet-ins of this kind a port may send.
    pub(super) fn limit(self, cfg: &Config) -> PacketRateLimit {
        match self {
            Self::Misses => {
                PacketRateLimit { rate: cfg.packets_per_s_max, burst: cfg.burst_packets }
            }
            Self::HostMisses(_) => Self::Misses.limit(cfg).half(),
            Self::Probes => PacketRateLimit {
                rate: cfg.packets_per_s_max.min(PROBES_PER_S_MAX),
                burst: cfg.burst_packets.min(PROBES_PER_S_MAX),
            },
        }
    }

    /// The flow entries for this kind at `port`, with these instructions.
    fn entries(self, port: PortNo, cfg: &Config, instructions: &[Instruction]) -> Vec<FlowMod> {
        let misses_entry = entry(port, cfg, instructions.to_vec());
        match self {
            Self::Misses => vec![misses_entry],
            Self::HostMisses(host) => vec![FlowMod {
                priority: HOST_PRIORITY,
                matching: [Field::in_port(port), Field::eth_src(host)].into(),
                ..misses_entry
            }],
            Self::Probes => LINK_PROBE_TYPES
                .map(|ethertype| FlowMod {
                    priority: PROBES_PRIORITY,
                    matching: [Field::in_port(port), Field::eth_type(ethertype.0)].into(),
                    ..misses_entry.clone()
                })
                .into(),
        }
    }

    /// Bytes of a frame that a metered entry sends to the controller.
    fn max_len(self, cfg: &Config) -> u16 {
        match self {
            Self::Misses | Self::HostMisses(_) => cfg.miss_send_len,
            Self::Probes => Action::WHOLE,
        }
    }
}

/// Sends one kind of frame of a port to the controller through meter `meter`, for `block_s` seconds; 0 is without
/// limit. Returns the last transaction id.
///
/// # Errors
/// In versions without meters.
pub(super) fn install_meter(
    out: &mut Encoder<'_>,
    (port, kind): (PortNo, PacketKind),
    (meter, limit): (u32, PacketRateLimit),
    block_s: u16,
    cfg: &Config,
) -> Result<u32, EncodeError> {
    // The meter may exist from an earlier block, and ADD fails if it does.
    out.encode(&limit.meter_mod(MeterCommand::DELETE, meter))?;
    let mut last = out.encode(&limit.meter_mod(MeterCommand::ADD, meter))?;
    let to_controller = Action::Output { port: PortNo::CONTROLLER, max_len: kind.max_len(cfg) };
    let metered = [Instruction::Meter { meter_id: meter }, Instruction::apply([to_controller])];
    for entry in kind.entries(port, cfg, &metered) {
        last = out.flow_mod(&FlowMod { hard_timeout: block_s, ..entry })?;
    }
    Ok(last)
}

/// Changes the limit of a meter that is installed. Returns the transaction id.
///
/// # Errors
/// In versions without meters.
pub(super) fn modify_meter(
    out: &mut Encoder<'_>,
    meter: u32,
    limit: PacketRateLimit,
) -> Result<u32, EncodeError> {
    out.encode(&limit.meter_mod(MeterCommand::MODIFY, meter))
}

/// Removes the limit on table misses of `port`.
///
/// # Errors
/// None: every version can express it.
pub(super) fn remove_meter(out: &mut Encoder<'_>, port: PortNo) -> Result<u32, EncodeError> {
    out.flow_mod(&FlowMod {
        command: FlowModCommand::DELETE_STRICT,
        cookie: COOKIE,
        priority: LIMIT_PRIORITY,
        matching: [Field::in_port(port)].into(),
        ..FlowMod::default()
    })
}

/// Drops one kind of frame of a port for `block_s` seconds.
///
/// # Errors
/// None: every version can express it.
pub(super) fn install_drop(
    out: &mut Encoder<'_>,
    (port, kind): (PortNo, PacketKind),
    block_s: u16,
    cfg: &Config,
) -> Result<(), EncodeError> {
    let entries = kind.entries(port, cfg, &[]);
    entries
        .into_iter()
        .try_for_each(|entry| out.flow_mod(&FlowMod { hard_timeout: block_s, ..entry }).map(|_| ()))
}

/// Marks packets of ECN-capable senders at `port` before they are sent to the controller.
///
/// # Errors
/// The version cannot match the codepoint.
pub(super) fn mark_ecn(
    out: &mut Encoder<'_>,
    port: PortNo,
    cfg: &Config,
) -> Result<(), EncodeError> {
    for eth_type in [EtherType::IPV4, EtherType::IPV6] {
        for codepoint in ECN_CAPABLE {
            let mark =
                Action::SetField { field: Field::new(FieldId::IP_ECN, ECN_CONGESTED).into() };
            let to_controller =
                Action::Output { port: PortNo::CONTROLLER, max_len: cfg.miss_send_len };
            let mut marked = entry(port, cfg, vec![Instruction::apply([mark, to_controller])]);
            marked.priority = MARK_PRIORITY;
            let more = [Field::eth_type(eth_type.0), Field::new(FieldId::IP_ECN, codepoint)];
            marked.matching = [Field::in_port(port)].into_iter().chain(more).collect();
            out.flow_mod(&marked)?;
        }
    }
    Ok(())
}

fn entry(port: PortNo, cfg: &Config, instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        cookie: COOKIE,
        hard_timeout: cfg.block_s,
        priority: LIMIT_PRIORITY,
        matching: [Field::in_port(port)].into(),
        instructions,
        ..FlowMod::default()
    }
}
