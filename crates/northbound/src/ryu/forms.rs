//! The three forms that Ryu's replies have, by version of OpenFlow.

use sluice_openflow::{
    Action, Bucket, BucketId, EncodeError, FlowMod, GroupMod, Instruction, Message, Multipart,
    MultipartReply, Version,
};

/// A form of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenFlow 1.0: old names of match fields, actions as texts.
    V1_0,
    /// OpenFlow 1.1 to 1.3: some old names of match fields, actions as texts.
    Strings,
    /// OpenFlow 1.4 and later: instructions, actions and properties as objects.
    Objects,
}

impl Form {
    pub(super) fn of(version: Version) -> Self {
        match version {
            Version::V1_0 => Self::V1_0,
            version if version < Version::V1_4 => Self::Strings,
            _ => Self::Objects,
        }
    }
}

fn bytes(message: &Message, version: Version) -> Result<Vec<u8>, EncodeError> {
    message.to_vec(version, 0)
}

/// An action as it is encoded; empty if the version cannot express it, which a switch has sent in this version nevertheless.
pub(super) fn encoded_action(action: &Action, version: Version) -> Vec<u8> {
    let flow_mod = |actions| {
        let instructions = vec![Instruction::ApplyActions { actions }];
        bytes(&Message::FlowMod(FlowMod { instructions, ..FlowMod::default() }), version)
    };
    let (with, without) = (flow_mod(vec![action.clone()]), flow_mod(vec![]));
    let start = without.map_or(0, |it| it.len());
    with.ok().and_then(|it| it.get(start..).map(Into::into)).unwrap_or_default()
}

/// The length of a bucket as it is encoded.
pub(super) fn bucket_len(bucket: &Bucket, version: Version) -> usize {
    let group_mod =
        |buckets| bytes(&Message::GroupMod(GroupMod { buckets, ..GroupMod::default() }), version);
    let without = group_mod(vec![]).map_or(0, |it| it.len());
    let bucket = Bucket { bucket_id: BucketId::ALL, ..bucket.clone() };
    group_mod(vec![bucket]).map_or(0, |with| with.len().saturating_sub(without))
}

/// The length of what `with` has and `without` has not.
pub(super) fn item_len(with: MultipartReply, without: MultipartReply, version: Version) -> usize {
    let len = |reply| {
        bytes(&Message::MultipartReply(Multipart::single(reply)), version).map_or(0, |it| it.len())
    };
    len(with).saturating_sub(len(without))
}
