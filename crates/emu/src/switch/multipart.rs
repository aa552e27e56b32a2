//! Replies to multipart requests: statistics and descriptions. §7.3.5.

use std::time::Instant;

use sluice_openflow::{
    AggregateStats, ErrorReason, FlowDesc, FlowMod, FlowStats, FlowStatsReason, FlowStatsRequest,
    GroupId, Message, Multipart, MultipartFlags, MultipartReply, MultipartRequest, PortNo, Stat,
    Stats, SwitchDesc, TableDesc, Version,
};

use super::flow_table::{FlowEntry, FlowFilter, FlowTable};
use super::{EmulatedSwitch, SwitchOutput, error_reasons};
use sluice_pipeline::NormalizedMatch;

impl EmulatedSwitch {
    pub(super) fn on_multipart(
        &mut self,
        now: Instant,
        xid: u32,
        request: MultipartRequest,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let version = self.session.version();
        match request {
            MultipartRequest::Desc => self.send_single(xid, MultipartReply::Desc(self.desc()), out),
            MultipartRequest::FlowDesc(request) => {
                let list = self.matching_entries(version, &request, |id, entry| {
                    entry.desc(now, id, version)
                })?;
                self.send_list(xid, &list, |flows| MultipartReply::FlowDesc { flows }, out);
            }
            MultipartRequest::FlowStats(request) => {
                let list =
                    self.matching_entries(version, &request, |id, entry| entry.counters(now, id))?;
                self.send_list(xid, &list, |flows| MultipartReply::FlowStats { flows }, out);
            }
            MultipartRequest::AggregateStats(request) => {
                let counters = |_, entry: &FlowEntry| (entry.packets, entry.bytes);
                let entries = self.matching_entries(version, &request, counters)?;
                let sum = AggregateStats { stats: sums(&entries) };
                self.send_single(xid, MultipartReply::AggregateStats(sum), out);
            }
            MultipartRequest::TableStats => {
                let list = self.table_stats(version);
                self.send_list(xid, &list, |tables| MultipartReply::TableStats { tables }, out);
            }
            MultipartRequest::TableFeatures { tables } if tables.is_empty() => {
                let list = self.table_features(version);
                self.send_list(xid, &list, |tables| MultipartReply::TableFeatures { tables }, out);
            }
            MultipartRequest::TableFeatures { .. } => {
                return Err(error_reasons::TABLE_FEATURES_EPERM);
            }
            MultipartRequest::TableDesc => {
                let ids = (0..=u8::MAX).zip(&self.tables);
                let desc = |(table_id, _)| TableDesc { table_id, ..TableDesc::default() };
                let list: Vec<_> = ids.map(desc).collect();
                self.send_list(xid, &list, |tables| MultipartReply::TableDesc { tables }, out);
            }
            MultipartRequest::PortStats(request) => {
                let list = self.ports.stats(now, self.check_port_exists(request.port_no)?, version);
                self.send_list(xid, &list, |ports| MultipartReply::PortStats { ports }, out);
            }
            MultipartRequest::PortDesc(request) => {
                let mut list = self.ports.descs(version);
                let port_no = self.check_port_exists(request.port_no)?;
                list.retain(|port| port_no == PortNo::ANY || port.port_no == port_no);
                self.send_list(xid, &list, |ports| MultipartReply::PortDesc { ports }, out);
            }
            MultipartRequest::QueueStats(_) => {
                self.send_list(xid, &[], |queues| MultipartReply::QueueStats { queues }, out);
            }
            MultipartRequest::QueueDesc(_) => {
                self.send_list(xid, &[], |queues| MultipartReply::QueueDesc { queues }, out);
            }
            other => return self.on_group_or_meter_multipart(now, xid, other, out),
        }
        Ok(())
    }

    fn on_group_or_meter_multipart(
        &mut self,
        now: Instant,
        xid: u32,
        request: MultipartRequest,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let version = self.session.version();
        match request {
            MultipartRequest::GroupStats(request) if version > Version::V1_0 => {
                let references =
                    |id: GroupId| self.count_entries(|entry| entry.instruction_set.uses_group(id));
                let mut list = self.groups.stats(now, request.group_id, references);
                if version < Version::V1_3 {
                    // These versions have no field for the duration.
                    for group in &mut list {
                        (group.duration_sec, group.duration_nsec) = (0, 0);
                    }
                }
                self.send_list(xid, &list, |groups| MultipartReply::GroupStats { groups }, out);
            }
            MultipartRequest::GroupDesc(request) if version > Version::V1_0 => {
                let list = self.groups.descs(request.group_id);
                self.send_list(xid, &list, |groups| MultipartReply::GroupDesc { groups }, out);
            }
            MultipartRequest::GroupFeatures if version > Version::V1_1 => {
                let features = self.groups.features(self.actions(version));
                self.send_single(xid, MultipartReply::GroupFeatures(features), out);
            }
            MultipartRequest::MeterStats(request) => {
                let references =
                    |id: u32| self.count_entries(|entry| entry.instruction_set.uses_meter(id));
                let list = self.meters.stats(now, request.meter_id, references);
                self.send_list(xid, &list, |meters| MultipartReply::MeterStats { meters }, out);
            }
            MultipartRequest::MeterDesc(request) => {
                let list = self.meters.descs(request.meter_id);
                self.send_list(xid, &list, |meters| MultipartReply::MeterDesc { meters }, out);
            }
            MultipartRequest::MeterFeatures => {
                let features = self.meters.features(version);
                self.send_single(xid, MultipartReply::MeterFeatures(features), out);
            }
            MultipartRequest::Experimenter { .. } => return Err(ErrorReason::BAD_EXPERIMENTER),
            _ => return Err(ErrorReason::BAD_MULTIPART),
        }
        Ok(())
    }

    fn send_single(&mut self, xid: u32, body: MultipartReply, out: &mut SwitchOutput) {
        let flags = MultipartFlags::default();
        self.send_reply(xid, &Message::MultipartReply(Multipart { flags, body }), out);
    }

    /// Sends a list in as many messages as needed; `reply` makes a body from a part of it.
    fn send_list<T: Clone>(
        &mut self,
        xid: u32,
        list: &[T],
        reply: impl Fn(Vec<T>) -> MultipartReply,
        out: &mut SwitchOutput,
    ) {
        let mut rest = list;
        loop {
            let mut n = rest.len().min(ITEMS_MAX);
            loop {
                let (part, after) = rest.split_at_checked(n).unwrap_or((rest, &[]));
                let more =
                    if after.is_empty() { MultipartFlags::default() } else { MultipartFlags::MORE };
                let body = reply(part.to_vec());
                let message = Message::MultipartReply(Multipart { flags: more, body });
                if message.encode(xid, &mut self.encoder(out)).is_ok() || n <= 1 {
                    rest = after;
                    break;
                }
                n /= 2;
            }
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Applies `describe` to every flow entry that the request selects.
    fn matching_entries<T>(
        &self,
        version: Version,
        request: &FlowStatsRequest,
        describe: impl Fn(u8, &FlowEntry) -> T,
    ) -> Result<Vec<T>, ErrorReason> {
        let is_all = request.table_id == FlowMod::TABLE_ALL;
        if !is_all && usize::from(request.table_id) >= self.tables.len() {
            return Err(error_reasons::BAD_REQUESTED_TABLE_ID);
        }
        let filter = FlowFilter {
            pattern: NormalizedMatch::new(&request.matching, version, &[])
                .map_err(error_reasons::of_match)?,
            strict: None,
            cookie: request.cookie,
            cookie_mask: if version == Version::V1_0 { 0 } else { request.cookie_mask },
            out_port: request.out_port,
            out_group: request.out_group,
        };
        let tables = (0..=u8::MAX).zip(&self.tables);
        let tables = tables.filter(|(id, _)| is_all || *id == request.table_id);
        let entries = tables.flat_map(|(id, table)| {
            let entries = table.select(&filter).into_iter().filter_map(|index| table.at(index));
            entries.map(|entry| describe(id, entry)).collect::<Vec<_>>()
        });
        Ok(entries.collect())
    }

    fn count_entries(&self, is_selected: impl Fn(&FlowEntry) -> bool) -> u32 {
        let n =
            self.tables.iter().flat_map(FlowTable::iter).filter(|entry| is_selected(entry)).count();
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    /// The requested port, if it exists.
    fn check_port_exists(&self, port: PortNo) -> Result<PortNo, ErrorReason> {
        let exists = port == PortNo::ANY || self.ports.contains(port);
        if exists { Ok(port) } else { Err(error_reasons::BAD_REQUESTED_PORT) }
    }

    fn desc(&self) -> Box<SwitchDesc> {
        Box::new(SwitchDesc {
            mfr: "Sluice".into(),
            hw: "none".into(),
            sw: env!("CARGO_PKG_VERSION").into(),
            serial: self.config.datapath_id.to_string().as_str().into(),
            dp: self.config.name.as_str().into(),
        })
    }
}

/// Maximum number of items in one message; fewer if they are long. Limits repeated encoding.
const ITEMS_MAX: usize = 512;

fn sums(counters: &[(u64, u64)]) -> Stats {
    let packets = counters.iter().map(|it| it.0).sum();
    let bytes = counters.iter().map(|it| it.1).sum();
    let flows = u32::try_from(counters.len()).unwrap_or(u32::MAX);
    Stats {
        fields: vec![Stat::PacketCount(packets), Stat::ByteCount(bytes), Stat::FlowCount(flows)],
    }
}

impl FlowEntry {
    fn desc(&self, now: Instant, table_id: u8, version: Version) -> FlowDesc {
        FlowDesc {
            table_id: if version > Version::V1_0 { table_id } else { 0 },
            priority: self.priority,
            idle_timeout: self.idle_timeout_s,
            hard_timeout: self.hard_timeout_s,
            flags: if version >= Version::V1_3 { self.flags } else { FlowDesc::default().flags },
            importance: if version >= Version::V1_4 { self.importance } else { 0 },
            cookie: self.cookie,
            matching: self.matching(),
            oxm_match: false,
            stats: self.stats(now),
            instructions: self.instructions().to_vec(),
        }
    }

    fn counters(&self, now: Instant, table_id: u8) -> FlowStats {
        FlowStats {
            table_id,
            reason: FlowStatsReason::STATS_REQUEST,
            priority: self.priority,
            matching: self.matching(),
            stats: self.stats(now),
        }
    }
}
