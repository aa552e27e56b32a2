//! The messages of bundles.

use sluice_openflow::{
    Action, BundleAddMessage, BundleControl, BundleCtrlType, BundleFlags, EmbeddedMessage, Field,
    FlowMod, GroupId, Instruction, Match, Message, PortNo,
};
use sluice_sdk::flow_space::STATIC;

use super::Item;

const ALL_OR_NOTHING: BundleFlags = BundleFlags(BundleFlags::ATOMIC.0 | BundleFlags::ORDERED.0);

/// `OFPG_MAX`: the last number that a group may have. Static groups must not have it.
pub(crate) const UNUSED_GROUP: GroupId = GroupId(0xffff_ff00);

/// A port that no switch is likely to have.
const UNUSED_PORT: PortNo = PortNo(0xfeff);

pub(super) fn control(bundle_id: u32, ctrl_type: BundleCtrlType) -> Item {
    let control = BundleControl { bundle_id, ctrl_type, flags: ALL_OR_NOTHING, properties: vec![] };
    (Message::BundleControl(control), None)
}

/// With a barrier, since the reply to the bundle request is an experimenter message in 1.3.
pub(super) fn confirmed(bundle_id: u32, ctrl_type: BundleCtrlType) -> Vec<Item> {
    vec![control(bundle_id, ctrl_type), (Message::BarrierRequest, None)]
}

pub(super) fn add_to_bundle(bundle_id: u32, (message, step): Item) -> Item {
    let added = Message::BundleAddMessage(BundleAddMessage {
        bundle_id,
        flags: ALL_OR_NOTHING,
        message: EmbeddedMessage { xid: 0, message: Box::new(message) },
        properties: vec![],
    });
    (added, step)
}

/// A message that a switch takes into a bundle, and that makes the commit fail: its group does not exist. If a switch applied it
/// nevertheless, it would match nothing, and its cookie has it removed.
pub(super) fn unappliable() -> Item {
    let actions = vec![Action::Group { group_id: UNUSED_GROUP.0 }];
    let flow = FlowMod {
        priority: STATIC.priority(),
        cookie: STATIC.cookie,
        matching: Match::from([Field::in_port(UNUSED_PORT)]),
        instructions: vec![Instruction::ApplyActions { actions }],
        ..FlowMod::default()
    };
    (Message::FlowMod(flow), None)
}
