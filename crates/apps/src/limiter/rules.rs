//! What a switch is told to do with a port whose frames come up too fast.

use std::time::Duration;

use sluice_openflow::{
    Action, BandTypes, EncodeError, Encoder, EtherType, Ethernet, Field, FieldId, FlowMod,
    FlowModCommand, Instruction, Message, MeterBand, MeterCapabilities, MeterCommand,
    MeterFeatures, MeterFlags, MeterId, MeterMod, PortNo,
};
use sluice_sdk::LINK_PROBE_TYPES;

use super::Config;
use super::bucket::Rate;

/// Marks the rules of the limiter, so that people and other applications know whose they are: "limit".
const COOKIE: u64 = 0x006c_696d_6974_0000;

/// Above the rule that sends misses up, below all others: what has a rule of its own is not held.
const MARK_PRIORITY: u16 = 1;

/// Above the rules that mark, so that what is held is held whether or not its sender knows of congestion.
const HOLD_PRIORITY: u16 = 2;

/// Above all others: topology, whose probes are such frames, has them come up by a rule just below.
const PROBES_PRIORITY: u16 = u16::MAX;

/// Such frames that may come up from a port in a second, and at once: twice what topology looks at. Where several ports of
/// ours are in one network of others, each hears all of them.
const PROBES_PER_S_MAX: u32 = 128;

/// Codepoints of a sender that knows what a mark is, ECT(1) and ECT(0). RFC 3168 §5.
const CAPABLE: [u128; 2] = [1, 2];

/// The mark: congestion experienced. RFC 3168 §5.
const CONGESTED: u128 = 3;

/// Whether a switch can hold a port with a meter that drops by packets.
pub(super) fn can_meter(features: &MeterFeatures) -> bool {
    features.max_meter > 0
        && features.band_types.contains(BandTypes::DROP)
        && features.capabilities.contains(MeterCapabilities::PKTPS)
}

/// Frames of a port that are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What no other rule matches.
    Misses,
    /// What shows links, or claims to. A rule above all that forward brings it up, so it is held above that.
    Probes,
}

/// How much of a kind may come up from a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    rate: u32,
    burst: u32,
}

impl Limit {
    /// Over a control link with round trips of `trip`.
    pub(super) fn rate(self, trip: Duration) -> Rate {
        Rate::new(self.rate, self.burst, trip)
    }
}

impl Kind {
    /// Of which kind a frame is.
    pub(super) fn of(eth: &Ethernet<'_>) -> Self {
        if LINK_PROBE_TYPES.contains(&eth.ethertype) { Self::Probes } else { Self::Misses }
    }

    /// How much of it may come up.
    pub(super) fn limit(self, cfg: &Config) -> Limit {
        match self {
            Self::Misses => Limit { rate: cfg.packets_per_s_max, burst: cfg.burst_packets },
            Self::Probes => Limit {
                rate: cfg.packets_per_s_max.min(PROBES_PER_S_MAX),
                burst: cfg.burst_packets.min(PROBES_PER_S_MAX),
            },
        }
    }

    /// The rules that hold it at `port`, which do this with it.
    fn rules(self, port: PortNo, cfg: &Config, instructions: &[Instruction]) -> Vec<FlowMod> {
        let held = rule(port, cfg, instructions.to_vec());
        match self {
            Self::Misses => vec![held],
            Self::Probes => LINK_PROBE_TYPES
                .map(|ethertype| FlowMod {
                    priority: PROBES_PRIORITY,
                    matching: [Field::in_port(port), Field::eth_type(ethertype.0)].into(),
                    ..held.clone()
                })
                .into(),
        }
    }

    /// Bytes of a frame that come up while it is held.
    fn max_len(self, cfg: &Config) -> u16 {
        match self {
            Self::Misses => cfg.miss_send_len,
            Self::Probes => Action::WHOLE,
        }
    }
}

/// Sends what is of one kind at a port up by way of meter `meter`, for so many seconds; 0 for good.
///
/// # Errors
/// In versions without meters.
pub(super) fn hold_by_meter(
    out: &mut Encoder<'_>,
    (port, kind): (PortNo, Kind),
    meter: u32,
    block_s: u16,
    cfg: &Config,
) -> Result<u32, EncodeError> {
    let Limit { rate, burst } = kind.limit(cfg);
    let set = |command| {
        Message::MeterMod(MeterMod {
            command,
            flags: MeterFlags::PKTPS | MeterFlags::BURST,
            meter_id: MeterId(meter),
            bands: vec![MeterBand::Drop { rate, burst_size: burst }],
        })
    };
    // A hold before this one has left it there, and what is there cannot be added.
    out.encode(&set(MeterCommand::DELETE))?;
    let mut last = out.encode(&set(MeterCommand::ADD))?;
    let up = Action::Output { port: PortNo::CONTROLLER, max_len: kind.max_len(cfg) };
    let metered = [Instruction::Meter { meter_id: meter }, Instruction::apply([up])];
    for rule in kind.rules(port, cfg, &metered) {
        last = out.flow_mod(&FlowMod { hard_timeout: block_s, ..rule })?;
    }
    Ok(last)
}

/// Holds the misses of `port` no longer.
///
/// # Errors
/// None: every version can say it.
pub(super) fn let_go(out: &mut Encoder<'_>, port: PortNo) -> Result<u32, EncodeError> {
    out.flow_mod(&FlowMod {
        command: FlowModCommand::DELETE_STRICT,
        cookie: COOKIE,
        priority: HOLD_PRIORITY,
        matching: [Field::in_port(port)].into(),
        ..FlowMod::default()
    })
}

/// Drops what is of one kind at a port for a while.
///
/// # Errors
/// None: every version can say it.
pub(super) fn hold_by_drop(
    out: &mut Encoder<'_>,
    (port, kind): (PortNo, Kind),
    cfg: &Config,
) -> Result<(), EncodeError> {
    kind.rules(port, cfg, &[]).iter().try_for_each(|rule| out.flow_mod(rule).map(|_| ()))
}

/// Marks frames of senders that know what it means, before they come up from `port`.
///
/// # Errors
/// In versions that cannot match the codepoint.
pub(super) fn mark(out: &mut Encoder<'_>, port: PortNo, cfg: &Config) -> Result<(), EncodeError> {
    for eth_type in [EtherType::IPV4, EtherType::IPV6] {
        for codepoint in CAPABLE {
            let mark = Action::SetField { field: Field::new(FieldId::IP_ECN, CONGESTED).into() };
            let up = Action::Output { port: PortNo::CONTROLLER, max_len: cfg.miss_send_len };
            let mut marked = rule(port, cfg, vec![Instruction::apply([mark, up])]);
            marked.priority = MARK_PRIORITY;
            let more = [Field::eth_type(eth_type.0), Field::new(FieldId::IP_ECN, codepoint)];
            marked.matching = [Field::in_port(port)].into_iter().chain(more).collect();
            out.flow_mod(&marked)?;
        }
    }
    Ok(())
}

fn rule(port: PortNo, cfg: &Config, instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        cookie: COOKIE,
        hard_timeout: cfg.block_s,
        priority: HOLD_PRIORITY,
        matching: [Field::in_port(port)].into(),
        instructions,
        ..FlowMod::default()
    }
}
