//! An entry as a version of OpenFlow expresses it, and as switches report it.

use std::sync::Arc;

use sluice_base::sort_by_key;
use sluice_openflow::{
    Action, BucketId, FlowDesc, FlowMod, FlowModCommand, GroupCommand, GroupDesc, GroupId,
    GroupMod, GroupProp, GroupType, Instruction, Match, Message, MeterBand, MeterCommand,
    MeterDesc, MeterFlags, MeterId, MeterMod, Oxm, Version,
};

use crate::entry::{Body, Kind};

/// What a switch can have one of: a flow entry with this table, priority and match, a group or a meter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Slot {
    Meter(MeterId),
    Group(GroupId),
    Flow(FlowKey),
}

/// What identifies a flow entry in a switch (§6.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FlowKey {
    pub(crate) table: u8,
    pub(crate) priority: u16,
    /// Sorted, since a switch may report fields in another order.
    fields: Vec<Oxm>,
}

/// What a switch has, or is to have, in a slot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    pub(crate) slot: Slot,
    pub(crate) content: Content,
    /// The message that installs it.
    pub(crate) add: Message,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Flow {
        cookie: u64,
        instructions: Vec<Instruction>,
    },
    Group {
        group_type: GroupType,
        buckets: Vec<sluice_openflow::Bucket>,
        properties: Vec<GroupProp>,
    },
    Meter {
        flags: MeterFlags,
        bands: Vec<MeterBand>,
    },
}

impl Slot {
    pub(crate) fn of_flow(flow: &FlowDesc) -> Self {
        Self::Flow(FlowKey::new(flow.table_id, flow.priority, &flow.matching))
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Flow(_) => Kind::Flow,
            Self::Group(_) => Kind::Group,
            Self::Meter(_) => Kind::Meter,
        }
    }
}

impl FlowKey {
    fn new(table: u8, priority: u16, matching: &Match) -> Self {
        let mut fields = matching.fields.clone();
        sort_by_key(&mut fields, Oxm::id);
        Self { table, priority, fields }
    }
}

impl Form {
    /// The form of `body` in `version`: encoded and parsed again, so that it has the names that the version has for its fields.
    pub(crate) fn new(body: &Body, version: Version) -> Result<Self, String> {
        let message = match body {
            Body::Flow(flow) => Message::FlowMod(flow.clone()),
            Body::Group(group) => Message::GroupMod(group.clone()),
            Body::Meter(meter) => Message::MeterMod(meter.clone()),
            Body::Invalid(reason) => return Err(format!("no longer valid: {reason}")),
        };
        let bytes = message.to_vec(version, 0).map_err(|error| error.to_string())?;
        let parsed = Message::parse(&bytes).map_err(|error| error.to_string())?;
        match parsed {
            Message::FlowMod(flow) => Ok(Self::of_flow(flow)),
            Message::GroupMod(group) => Ok(Self::of_group(group)),
            Message::MeterMod(meter) => Ok(Self::of_meter(meter)),
            other => Err(format!("{} is no static entry", other.name())),
        }
    }

    /// The form of a flow entry that a switch has reported.
    pub(crate) fn reported_flow(flow: FlowDesc) -> Self {
        Self::of_flow(FlowMod {
            table_id: flow.table_id,
            priority: flow.priority,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            flags: flow.flags,
            importance: flow.importance,
            cookie: flow.cookie,
            matching: flow.matching,
            instructions: flow.instructions,
            ..FlowMod::default()
        })
    }

    pub(crate) fn reported_group(group: GroupDesc) -> Self {
        Self::of_group(GroupMod {
            group_type: group.group_type,
            group_id: group.group_id,
            buckets: group.buckets,
            properties: group.properties,
            ..GroupMod::default()
        })
    }

    pub(crate) fn reported_meter(meter: MeterDesc) -> Self {
        Self::of_meter(MeterMod {
            command: MeterCommand::ADD,
            flags: meter.flags,
            meter_id: meter.meter_id,
            bands: meter.bands,
        })
    }

    fn of_flow(mut flow: FlowMod) -> Self {
        // An empty list of actions does what no list does.
        flow.instructions.retain(|it| match it {
            Instruction::ApplyActions { actions } | Instruction::WriteActions { actions } => {
                !actions.is_empty()
            }
            _ => true,
        });
        Self {
            slot: Slot::Flow(FlowKey::new(flow.table_id, flow.priority, &flow.matching)),
            content: Content::Flow { cookie: flow.cookie, instructions: flow.instructions.clone() },
            add: Message::FlowMod(flow),
        }
    }

    fn of_group(mut group: GroupMod) -> Self {
        for (bucket, position) in group.buckets.iter_mut().zip(0..) {
            if bucket.bucket_id == BucketId::ALL {
                bucket.bucket_id = BucketId(position);
            }
        }
        Self {
            slot: Slot::Group(group.group_id),
            content: Content::Group {
                group_type: group.group_type,
                buckets: group.buckets.clone(),
                properties: group.properties.clone(),
            },
            add: Message::GroupMod(group),
        }
    }

    fn of_meter(meter: MeterMod) -> Self {
        Self {
            slot: Slot::Meter(meter.meter_id),
            content: Content::Meter { flags: meter.flags, bands: meter.bands.clone() },
            add: Message::MeterMod(meter),
        }
    }

    pub(crate) fn cookie(&self) -> Option<u64> {
        match self.content {
            Content::Flow { cookie, .. } => Some(cookie),
            Content::Group { .. } | Content::Meter { .. } => None,
        }
    }

    /// What tells a flow entry that a switch reports with another match: cookie, table and priority.
    pub(crate) fn identity(&self) -> (Option<u64>, u8, u16) {
        match &self.slot {
            Slot::Flow(key) => (self.cookie(), key.table, key.priority),
            Slot::Group(_) | Slot::Meter(_) => (None, 0, 0),
        }
    }

    /// Groups to which its buckets send packets, which must exist before it.
    pub(crate) fn groups_used(&self) -> impl Iterator<Item = GroupId> {
        let buckets = match &self.content {
            Content::Group { buckets, .. } => buckets.as_slice(),
            Content::Flow { .. } | Content::Meter { .. } => &[],
        };
        buckets.iter().flat_map(|bucket| &bucket.actions).filter_map(|action| match action {
            Action::Group { group_id } => Some(GroupId(*group_id)),
            _ => None,
        })
    }
}

/// The message that makes of what a switch has in a slot what it is to have; `None` if nothing is to be done.
pub(crate) fn transition(
    from: Option<&Arc<Form>>,
    to: Option<&Arc<Form>>,
    version: Version,
) -> Option<Message> {
    match (from, to) {
        (None, None) => None,
        (None, Some(to)) => Some(to.add.clone()),
        (Some(from), None) => Some(delete(from, version)),
        (Some(from), Some(to)) => Some(replace(from, to)),
    }
}

/// Modifies what is there where that is possible: it goes on to forward, and keeps its counters.
fn replace(from: &Form, to: &Form) -> Message {
    let mut message = to.add.clone();
    match &mut message {
        // A modification keeps the cookie and the flags of the flow entry.
        Message::FlowMod(flow) if from.cookie() == to.cookie() => {
            flow.command = FlowModCommand::MODIFY_STRICT;
        }
        Message::GroupMod(group) => group.command = GroupCommand::MODIFY,
        Message::MeterMod(meter) => meter.command = MeterCommand::MODIFY,
        _ => {}
    }
    message
}

fn delete(form: &Form, version: Version) -> Message {
    match &form.add {
        Message::FlowMod(flow) => {
            let mut delete = FlowMod {
                command: FlowModCommand::DELETE_STRICT,
                table_id: flow.table_id,
                priority: flow.priority,
                matching: flow.matching.clone(),
                ..FlowMod::default()
            };
            // Not what somebody else has put in its place meanwhile.
            if version > Version::V1_0 {
                (delete.cookie, delete.cookie_mask) = (flow.cookie, u64::MAX);
            }
            Message::FlowMod(delete)
        }
        Message::GroupMod(group) => Message::GroupMod(GroupMod {
            command: GroupCommand::DELETE,
            group_id: group.group_id,
            group_type: group.group_type,
            ..GroupMod::default()
        }),
        Message::MeterMod(meter) => Message::MeterMod(MeterMod {
            command: MeterCommand::DELETE,
            meter_id: meter.meter_id,
            ..MeterMod::default()
        }),
        other => other.clone(),
    }
}
