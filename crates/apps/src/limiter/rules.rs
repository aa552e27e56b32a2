//! What a switch is told to do with a port whose frames come up too fast.

use sluice_wire::model::{
    Band, BandTypes, MeterCapabilities, MeterCommand, MeterFeatures, MeterFlags, MeterId, MeterMod,
};
use sluice_wire::{
    Action, EtherType, Field, FieldId, FlowMod, Inexpressible, Instruction, Message, Out, PortNo,
};

use super::Config;

/// Marks the rules of the limiter, so that people and other applications know whose they are: "limit".
const COOKIE: u64 = 0x006c_696d_6974_0000;

/// Above the rule that sends misses up, below all others: what has a rule of its own is not held.
const MARK_PRIORITY: u16 = 1;

/// Above the rules that mark, so that what is held is held whether or not its sender knows of congestion.
const HOLD_PRIORITY: u16 = 2;

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

/// Sends what no rule matches at `port` up by way of meter `meter`.
///
/// # Errors
/// In versions without meters.
pub(super) fn hold_by_meter(
    out: &mut Out<'_>,
    port: PortNo,
    meter: u32,
    cfg: &Config,
) -> Result<u32, Inexpressible> {
    let set = |command| {
        Message::MeterMod(MeterMod {
            command,
            flags: MeterFlags::PKTPS | MeterFlags::BURST,
            meter_id: MeterId(meter),
            bands: vec![Band::Drop { rate: cfg.port_rate, burst_size: cfg.burst }],
        })
    };
    // A hold before this one has left it there, and what is there cannot be added.
    out.say(&set(MeterCommand::DELETE))?;
    out.say(&set(MeterCommand::ADD))?;
    let up = Action::Output { port: PortNo::CONTROLLER, max_len: cfg.miss_len };
    let metered = vec![Instruction::Meter { meter_id: meter }, Instruction::apply([up])];
    out.flow_mod(&rule(port, cfg, metered))
}

/// Drops what no rule matches at `port` for a while.
///
/// # Errors
/// None: every version can say it.
pub(super) fn hold_by_drop(
    out: &mut Out<'_>,
    port: PortNo,
    cfg: &Config,
) -> Result<u32, Inexpressible> {
    out.flow_mod(&rule(port, cfg, vec![]))
}

/// Marks frames of senders that know what it means, before they come up from `port`.
///
/// # Errors
/// In versions that cannot match the codepoint.
pub(super) fn mark(out: &mut Out<'_>, port: PortNo, cfg: &Config) -> Result<(), Inexpressible> {
    for eth_type in [EtherType::IPV4, EtherType::IPV6] {
        for codepoint in CAPABLE {
            let mark = Action::SetField { field: Field::new(FieldId::IP_ECN, CONGESTED).into() };
            let up = Action::Output { port: PortNo::CONTROLLER, max_len: cfg.miss_len };
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
        hard_timeout: cfg.hold_s,
        priority: HOLD_PRIORITY,
        matching: [Field::in_port(port)].into(),
        instructions,
        ..FlowMod::default()
    }
}
