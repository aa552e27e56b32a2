//! Compares the permanent flow entries of switches with what they should be now and then, and writes them again if they differ.
//!
//! A switch reports that such an entry was removed, and the engine restores it; but not that another program has modified or
//! replaced it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::flow_stats;
use sluice_openflow::{
    Action, DatapathId, Encoder, FlowDesc, FlowMod, FlowStatsRequest, Instruction, Message,
    MultipartRequest, MultipartType, PortNo, split_message,
};
use sluice_sdk::Ctx;
use sluice_sdk::flow_space::TABLE_MISS;

/// The permanent entries of one application in the switches of this worker.
#[derive(Debug, Default)]
pub(crate) struct PermanentEntries {
    switches: BTreeMap<DatapathId, Check>,
    restored: u64,
}

#[derive(Debug)]
struct Check {
    connected_at: Instant,
    asked_at: Option<Instant>,
    /// Transaction id of the request in flight.
    xid: Option<u32>,
    was_reported: bool,
}

impl PermanentEntries {
    /// How often entries were written again.
    pub(crate) fn restored(&self) -> u64 {
        self.restored
    }

    pub(crate) fn on_connected(&mut self, ctx: &Ctx<'_>) {
        let check = Check { connected_at: ctx.now, asked_at: None, xid: None, was_reported: false };
        self.switches.insert(ctx.datapath_id, check);
    }

    pub(crate) fn on_disconnected(&mut self, id: DatapathId) {
        self.switches.remove(&id);
    }

    /// Asks the switch for its permanent entries, if it was not asked for this time. `write` encodes what they should be.
    pub(crate) fn tick(
        &mut self,
        interval: Duration,
        write: impl Fn(&mut Encoder<'_>),
        ctx: &mut Ctx<'_>,
    ) {
        let Some(check) = self.switches.get_mut(&ctx.datapath_id) else { return };
        // The first time is earlier, so that the switch is not asked for other entries at the same time.
        let due = check.asked_at.map_or(check.connected_at + interval / 2, |at| at + interval);
        if interval.is_zero() || ctx.now < due || !ctx.has_room() {
            return;
        }
        check.asked_at = Some(ctx.now);
        if expected_entries(&write, ctx).is_empty() {
            return;
        }
        // All of them send to the controller. Not every version can ask for cookies.
        let to_controller =
            FlowStatsRequest { out_port: PortNo::CONTROLLER, ..FlowStatsRequest::default() };
        let with_cookie = FlowStatsRequest {
            cookie: TABLE_MISS.cookie,
            cookie_mask: TABLE_MISS.cookie_mask,
            ..to_controller.clone()
        };
        let request = ctx.request(MultipartRequest::FlowDesc(with_cookie));
        check.xid =
            request.or_else(|_| ctx.request(MultipartRequest::FlowDesc(to_controller))).ok();
    }

    /// Handles the list of entries: writes them again if one is missing or different.
    pub(crate) fn on_multipart_reply(
        &mut self,
        (xid, kind, body): (u32, MultipartType, &[u8]),
        write: impl Fn(&mut Encoder<'_>),
        ctx: &mut Ctx<'_>,
    ) {
        let Some(check) = self.switches.get_mut(&ctx.datapath_id) else { return };
        if check.xid.take_if(|sent| *sent == xid).is_none() {
            return;
        }
        let entries = flow_stats(ctx.switch.version(), kind, body, 0).map_while(Result::ok);
        let entries: Vec<_> = entries.filter_map(|entry| entry.to_flow_desc().ok()).collect();
        let mut expected = expected_entries(&write, ctx).into_iter();
        if expected.all(|expected| entries.iter().any(|entry| is_same(entry, &expected))) {
            return;
        }
        self.restored += 1;
        write(&mut ctx.switch);
        // Once only, as a switch may list them differently.
        if !std::mem::replace(&mut check.was_reported, true) {
            let id = ctx.datapath_id;
            ctx.network.report(|| {
                format!("permanent flow entries are missing or were modified by another program; they are written again dpid={id}")
            });
        }
    }
}

/// What `write` encodes for a switch.
fn expected_entries(write: impl Fn(&mut Encoder<'_>), ctx: &mut Ctx<'_>) -> Vec<FlowMod> {
    let mut bytes = Vec::new();
    write(&mut ctx.switch.with_buffer(&mut bytes));
    let (mut rest, mut entries) = (&*bytes, Vec::new());
    while let Ok(Some((message, after))) = split_message(rest) {
        if let Ok(Message::FlowMod(entry)) = Message::parse_raw(message) {
            entries.push(entry);
        }
        rest = after;
    }
    entries
}

fn is_same(entry: &FlowDesc, expected: &FlowMod) -> bool {
    entry.priority == expected.priority
        && entry.matching == expected.matching
        && outputs(&entry.instructions).eq(outputs(&expected.instructions))
}

/// The ports to which a flow entry sends.
fn outputs(instructions: &[Instruction]) -> impl Iterator<Item = PortNo> {
    let actions = instructions.iter().flat_map(|instruction| match instruction {
        Instruction::ApplyActions { actions } => &actions[..],
        _ => &[],
    });
    actions.filter_map(|action| match action {
        Action::Output { port, .. } => Some(*port),
        _ => None,
    })
}
