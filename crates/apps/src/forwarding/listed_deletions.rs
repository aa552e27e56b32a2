//! Deletes flow entries of a switch whose deletions have no cookie (OpenFlow 1.0), and leaves those of other programs.
//!
//! The entries that a filter selects are counted, listed, and those of forwarding are deleted one by one. A switch has one such
//! request in flight, so that its replies are small.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sluice_openflow::view::flow_stats;
use sluice_openflow::{Message, MultipartReply, MultipartRequest, MultipartType};
use sluice_sdk::{Ctx, LISTED_ENTRIES_MAX};

use super::flow_entries::{self, EntryFilter, EntrySelector};

/// Filters that wait for one switch, at most.
const WAITING_MAX: usize = 4096;

/// Time after which a request without a reply is given up: over a congested control link, replies wait behind packet-ins. An entry
/// whose deletion is given up may discard packets for as long as there are some, since they keep it from expiring.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The deletions of one switch that wait or are in progress.
#[derive(Debug, Default)]
pub(super) struct ListedDeletions {
    waiting: BTreeSet<EntryFilter>,
    current: Option<Deletion>,
    /// Whether it is logged that the switch does not reply.
    is_silence_logged: bool,
}

/// The deletion in progress.
#[derive(Debug)]
struct Deletion {
    filter: EntryFilter,
    /// Transaction id of the request.
    xid: u32,
    requested: Instant,
}

impl ListedDeletions {
    /// Adds a deletion. Returns `false` if too many wait.
    pub(super) fn add(&mut self, filter: EntryFilter) -> bool {
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.insert(filter);
        }
        has_room
    }

    /// Starts the next deletion if none is in progress.
    pub(super) fn start_next(&mut self, ctx: &mut Ctx<'_>) {
        let is_late = |deletion: &mut Deletion| {
            ctx.now.saturating_duration_since(deletion.requested) >= REPLY_TIMEOUT
        };
        let was_late = self.current.take_if(is_late).is_some();
        if was_late && !std::mem::replace(&mut self.is_silence_logged, true) {
            ctx.network.report(|| {
                format!("switch does not list its flow entries; stale ones stay until they expire dpid={}", ctx.datapath_id)
            });
        }
        while self.current.is_none()
            && let Some(filter) = self.waiting.pop_first()
        {
            let request = EntrySelector::Listed.filtered_request(filter);
            self.request(filter, MultipartRequest::AggregateStats(request), ctx);
        }
    }

    fn request(&mut self, filter: EntryFilter, request: MultipartRequest, ctx: &mut Ctx<'_>) {
        let (xid, requested) = (ctx.request(request), ctx.now);
        debug_assert!(xid.is_ok(), "every version can express it");
        self.current = xid.ok().map(|xid| Deletion { filter, xid, requested });
    }

    /// Handles the reply to a request.
    pub(super) fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let Some(deletion) = self.current.take_if(|deletion| deletion.xid == xid) else { return };
        self.is_silence_logged = false;
        if kind == MultipartType::AGGREGATE {
            let count = match ctx.parse_reply(kind, body) {
                Ok(MultipartReply::AggregateStats(sum)) => sum.stats.flow_count(),
                _ => None,
            };
            self.on_count(deletion.filter, count, ctx);
        } else {
            let entries = flow_stats(ctx.switch.version(), kind, body, 0).map_while(Result::ok);
            for entry in entries.filter_map(|entry| entry.to_flow_desc().ok()) {
                if flow_entries::is_ours(entry.cookie) {
                    let deletion = flow_entries::delete_listed(entry);
                    ctx.network.send_to(ctx.datapath_id, Message::FlowMod(deletion));
                }
            }
        }
        self.start_next(ctx);
    }

    /// Handles the number of flow entries that a filter selects. If it is unknown, they are listed: the session discards a reply
    /// that is too long.
    fn on_count(&mut self, filter: EntryFilter, count: Option<u32>, ctx: &mut Ctx<'_>) {
        match count {
            Some(0) => {}
            None | Some(1..=LISTED_ENTRIES_MAX) => {
                let request = EntrySelector::Listed.filtered_request(filter);
                self.request(filter, MultipartRequest::FlowDesc(request), ctx);
            }
            Some(count) => {
                let id = ctx.datapath_id;
                ctx.network.report(|| {
                    format!("switch has too many stale flow entries to list them; those of other programs are deleted with them dpid={id} entries={count}")
                });
                ctx.send_to(id, Message::FlowMod(EntrySelector::Listed.delete(filter)));
            }
        }
    }

    /// Handles an error message of the switch: if it is about the request, the next deletion starts.
    pub(super) fn on_error(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        if self.current.take_if(|deletion| deletion.xid == xid).is_some() {
            self.start_next(ctx);
        }
    }
}
