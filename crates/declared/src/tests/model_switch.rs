//! A switch with flow entries, groups, meters and bundles, as the specification describes them.

use std::collections::BTreeMap;

use sluice_openflow::spec::ErrorRow;
use sluice_openflow::{
    Action, BundleCtrlType, ErrorReason, ErrorType, FlowDesc, FlowMod, FlowModCommand,
    GroupCommand, GroupDesc, GroupMod, Instruction, Message, MeterCommand, MeterDesc, MeterMod,
    Multipart, MultipartReply, MultipartRequest, MultipartType, PortNo, Version,
};
use sluice_sdk::{Answer, ReceivedMultipart, Refusal};

#[derive(Debug, Clone)]
pub(super) struct ModelSwitch {
    pub(super) version: Version,
    pub(super) tables: Tables,
    pub(super) has_bundles: bool,
    /// Whether it refuses changes, since another controller is the master.
    pub(super) is_slave: bool,
    /// Whether it processes messages about bundles by doing nothing.
    pub(super) ignores_bundles: bool,
    /// The ports to which it reports that all entries send: one after the other in each reading. None: as they are.
    pub(super) reported_ports: Vec<PortNo>,
    /// Flow entries that it reports besides those that it has.
    pub(super) invented: Vec<FlowDesc>,
    bundles: BTreeMap<u32, Vec<Message>>,
    /// Messages that change something.
    pub(super) changes: usize,
    /// Requests to list flow entries, groups or meters.
    pub(super) read: usize,
    /// Bundles that it has committed.
    pub(super) committed: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) flows: Vec<FlowDesc>,
    pub(super) flows_max: usize,
    pub(super) groups: BTreeMap<u32, GroupDesc>,
    pub(super) meters: BTreeMap<u32, MeterDesc>,
}

fn error(kind: ErrorType, name: &str, version: Version) -> ErrorReason {
    ErrorRow::by_name(kind, name, version).unwrap().reason
}

impl ModelSwitch {
    pub(super) fn new(version: Version) -> Self {
        let tables = Tables {
            flows: vec![],
            flows_max: 1000,
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
        };
        let has_bundles = version >= Version::V1_4;
        Self {
            version,
            tables,
            has_bundles,
            is_slave: false,
            ignores_bundles: false,
            reported_ports: vec![],
            invented: vec![],
            bundles: BTreeMap::new(),
            changes: 0,
            read: 0,
            committed: 0,
        }
    }

    pub(super) fn on_request(&mut self, messages: &[Message]) -> Answer {
        if let [Message::MultipartRequest(request)] = messages {
            self.read += 1;
            let is_of_flows = matches!(request.body, MultipartRequest::FlowDesc(_));
            if self.version == Version::V1_0 && !is_of_flows {
                let reason = ErrorReason::BAD_MULTIPART;
                return Answer::Refused(Refusal { index: 0, reason });
            }
            return self.multipart(&request.body);
        }
        // As on the wire: all are encoded, or none is sent.
        let mut received = vec![];
        for (index, message) in messages.iter().enumerate() {
            match message.to_vec(self.version, 1) {
                Ok(bytes) => received.push(Message::parse(&bytes).unwrap()),
                Err(error) => return Answer::Unsupported { index, error },
            }
        }
        let mut refusal = None;
        for (index, message) in received.into_iter().enumerate() {
            if let Err((inner, reason)) = self.on_message(message, index) {
                let first = Refusal { index: inner, reason };
                refusal = refusal.filter(|it: &Refusal| it.index <= first.index).or(Some(first));
            }
        }
        refusal.map_or(Answer::Done, Answer::Refused)
    }

    pub(super) fn open_bundles(&self) -> usize {
        self.bundles.len()
    }

    /// The index of the message that was refused, which is an earlier one if a commit fails.
    fn on_message(&mut self, message: Message, index: usize) -> Result<(), (usize, ErrorReason)> {
        let version = self.version;
        let refuse = |kind, name: &str| Err((index, error(kind, name, version)));
        match message {
            Message::BarrierRequest => Ok(()),
            _ if self.is_slave => refuse(ErrorType::BAD_REQUEST, "IS_SLAVE"),
            Message::BundleControl(_) | Message::BundleAddMessage(_) if self.ignores_bundles => {
                Ok(())
            }
            Message::BundleControl(_) | Message::BundleAddMessage(_) if !self.has_bundles => {
                refuse(ErrorType::BAD_REQUEST, "BAD_TYPE")
            }
            Message::BundleControl(control) => match control.ctrl_type {
                BundleCtrlType::OPEN_REQUEST => {
                    self.bundles.insert(control.bundle_id, vec![]);
                    Ok(())
                }
                BundleCtrlType::COMMIT_REQUEST => {
                    let Some(bundle) = self.bundles.remove(&control.bundle_id) else {
                        return refuse(ErrorType::BUNDLE_FAILED, "BAD_ID");
                    };
                    let (mut tables, count) = (self.tables.clone(), bundle.len());
                    for (n, message) in bundle.into_iter().enumerate() {
                        if let Err(reason) = tables.apply(message, version) {
                            // Errors about messages of earlier requests reach nobody.
                            return match (index + n).checked_sub(count) {
                                Some(at) => Err((at, reason)),
                                None => refuse(ErrorType::BUNDLE_FAILED, "MSG_FAILED"),
                            };
                        }
                    }
                    self.changes += count;
                    self.committed += 1;
                    self.tables = tables;
                    Ok(())
                }
                BundleCtrlType::CLOSE_REQUEST if self.bundles.contains_key(&control.bundle_id) => {
                    Ok(())
                }
                BundleCtrlType::DISCARD_REQUEST
                    if self.bundles.remove(&control.bundle_id).is_some() =>
                {
                    Ok(())
                }
                _ => refuse(ErrorType::BUNDLE_FAILED, "BAD_ID"),
            },
            Message::BundleAddMessage(add) => match self.bundles.get_mut(&add.bundle_id) {
                Some(bundle) => {
                    bundle.push(*add.message.message);
                    Ok(())
                }
                None => refuse(ErrorType::BUNDLE_FAILED, "BAD_ID"),
            },
            message => {
                self.changes += 1;
                self.tables.apply(message, version).map_err(|reason| (index, reason))
            }
        }
    }

    fn multipart(&self, request: &MultipartRequest) -> Answer {
        let tables = &self.tables;
        let (reply, kind) = match request {
            MultipartRequest::FlowDesc(request) => {
                let is_selected =
                    |flow: &&FlowDesc| flow.cookie & request.cookie_mask == request.cookie;
                let all = tables.flows.iter().chain(&self.invented);
                let mut flows: Vec<_> = all.filter(is_selected).cloned().collect();
                let mut ports = self.reported_ports.iter().cycle();
                if let Some(&port) = ports.nth(self.read) {
                    for flow in &mut flows {
                        report_port(flow, port);
                    }
                }
                return self.flow_reply(&flows);
            }
            MultipartRequest::GroupDesc(_) => {
                let groups = tables.groups.values().cloned().collect();
                (MultipartReply::GroupDesc { groups }, MultipartType(7))
            }
            MultipartRequest::MeterDesc(_) => {
                let meters = tables.meters.values().cloned().collect();
                (MultipartReply::MeterDesc { meters }, MultipartType(10))
            }
            other => unreachable!("{other:?}"),
        };
        Answer::Multipart(ReceivedMultipart::new(self.version, kind, self.reply_body(reply)))
    }

    /// The entries of as many messages as they need.
    fn flow_reply(&self, flows: &[FlowDesc]) -> Answer {
        let parts = flows
            .chunks(200)
            .map(|flows| self.reply_body(MultipartReply::FlowDesc { flows: flows.to_vec() }));
        let body = parts.collect::<Vec<_>>().concat();
        Answer::Multipart(ReceivedMultipart::new(self.version, MultipartType::FLOW, body))
    }

    fn reply_body(&self, reply: MultipartReply) -> Vec<u8> {
        let message = Message::MultipartReply(Multipart::single(reply));
        let bytes = message.to_vec(self.version, 1).unwrap();
        let head = if self.version == Version::V1_0 { 12 } else { 16 };
        bytes[head..].to_vec()
    }
}

fn report_port(flow: &mut FlowDesc, port: PortNo) {
    for instruction in &mut flow.instructions {
        if let Instruction::ApplyActions { actions } = instruction {
            *actions = vec![Action::output(port)];
        }
    }
}

impl Tables {
    /// With a group or meter, the flow entries go that use it.
    fn remove_users(&mut self, group: Option<u32>, meter: Option<u32>) {
        let uses = |it: &Instruction| match it {
            Instruction::ApplyActions { actions } => actions
                .iter()
                .any(|it| matches!(it, Action::Group { group_id } if Some(*group_id) == group)),
            Instruction::Meter { meter_id } => Some(*meter_id) == meter,
            _ => false,
        };
        self.flows.retain(|flow| !flow.instructions.iter().any(uses));
    }

    fn apply(&mut self, message: Message, version: Version) -> Result<(), ErrorReason> {
        match message {
            Message::FlowMod(flow) => self.flow_mod(flow, version),
            Message::GroupMod(_) if version == Version::V1_0 => Err(ErrorReason::BAD_EXPERIMENTER),
            Message::GroupMod(group) => self.group_mod(group, version),
            Message::MeterMod(meter) => self.meter_mod(meter, version),
            other => unreachable!("{other:?}"),
        }
    }

    fn flow_mod(&mut self, flow: FlowMod, version: Version) -> Result<(), ErrorReason> {
        let refuse = |kind, name: &str| Err(error(kind, name, version));
        let at = self.flows.iter().position(|it| {
            (it.priority, it.table_id) == (flow.priority, flow.table_id)
                && it.matching.to_text() == flow.matching.to_text()
        });
        let actions = flow.instructions.iter().flat_map(|it| match it {
            Instruction::ApplyActions { actions } => actions.as_slice(),
            _ => &[],
        });
        let mut groups = actions.filter_map(|it| match it {
            Action::Group { group_id } => Some(group_id),
            _ => None,
        });
        if groups.any(|group| !self.groups.contains_key(group)) {
            return refuse(ErrorType::BAD_ACTION, "BAD_OUT_GROUP");
        }
        match (flow.command, at) {
            (FlowModCommand::ADD, at) => {
                if at.is_none() && self.flows.len() >= self.flows_max {
                    return match version {
                        Version::V1_0 => refuse(ErrorType::FLOW_MOD_FAILED, "ALL_TABLES_FULL"),
                        _ => refuse(ErrorType::FLOW_MOD_FAILED, "TABLE_FULL"),
                    };
                }
                let entry = FlowDesc {
                    table_id: flow.table_id,
                    priority: flow.priority,
                    cookie: flow.cookie,
                    matching: flow.matching,
                    instructions: flow.instructions,
                    ..FlowDesc::default()
                };
                match at {
                    Some(at) => self.flows[at] = entry,
                    None => self.flows.push(entry),
                }
            }
            (FlowModCommand::MODIFY_STRICT, Some(at)) => {
                self.flows[at].instructions = flow.instructions;
            }
            (FlowModCommand::DELETE_STRICT, Some(at))
                if self.flows[at].cookie & flow.cookie_mask == flow.cookie & flow.cookie_mask =>
            {
                self.flows.remove(at);
            }
            _ => {}
        }
        Ok(())
    }

    fn group_mod(&mut self, group: GroupMod, version: Version) -> Result<(), ErrorReason> {
        let refuse = |name: &str| Err(error(ErrorType::GROUP_MOD_FAILED, name, version));
        let id = group.group_id.0;
        let used = group.buckets.iter().flat_map(|bucket| &bucket.actions);
        for action in used {
            if let Action::Group { group_id } = action
                && !self.groups.contains_key(group_id)
            {
                return refuse("INVALID_GROUP");
            }
        }
        let exists = self.groups.contains_key(&id);
        match group.command {
            GroupCommand::ADD if exists => return refuse("GROUP_EXISTS"),
            GroupCommand::MODIFY if !exists => return refuse("UNKNOWN_GROUP"),
            GroupCommand::DELETE => {
                self.groups.remove(&id);
                self.remove_users(Some(id), None);
                return Ok(());
            }
            _ => {}
        }
        let desc = GroupDesc {
            group_type: group.group_type,
            group_id: group.group_id,
            buckets: group.buckets,
            properties: group.properties,
        };
        self.groups.insert(id, desc);
        Ok(())
    }

    fn meter_mod(&mut self, meter: MeterMod, version: Version) -> Result<(), ErrorReason> {
        let refuse = |name: &str| Err(error(ErrorType::METER_MOD_FAILED, name, version));
        let exists = self.meters.contains_key(&meter.meter_id.0);
        match meter.command {
            MeterCommand::ADD if exists => return refuse("METER_EXISTS"),
            MeterCommand::MODIFY | MeterCommand::DELETE if !exists => {
                return refuse("UNKNOWN_METER");
            }
            MeterCommand::DELETE => {
                self.meters.remove(&meter.meter_id.0);
                self.remove_users(None, Some(meter.meter_id.0));
                return Ok(());
            }
            _ => {}
        }
        let desc = MeterDesc { flags: meter.flags, meter_id: meter.meter_id, bands: meter.bands };
        self.meters.insert(meter.meter_id.0, desc);
        Ok(())
    }
}
