//! Answers to multipart requests: statistics and descriptions. §7.3.5.

use std::time::Instant;

use sluice_openflow::{
    AggregateStats, ErrorReason, FlowDesc, FlowMod, FlowStats, FlowStatsReason, FlowStatsRequest,
    GroupId, Message, Multipart, MultipartFlags, MultipartReply, MultipartRequest, PortNo, Stat,
    Stats, SwitchDesc, TableDesc, Version,
};

use super::fields::NormalizedMatch;
use super::flow_table::{FlowEntry, FlowFilter, FlowTable};
use super::{EmulatedSwitch, SwitchOutput, error_reasons};

impl EmulatedSwitch {
    pub(super) fn on_multipart(
        &mut self,
        now: Instant,
        xid: u32,
        asked: MultipartRequest,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let version = self.session.version();
        match asked {
            MultipartRequest::Desc => self.send_single(xid, MultipartReply::Desc(self.desc()), out),
            MultipartRequest::FlowDesc(asked) => {
                let told = self
                    .matching_entries(version, &asked, |id, entry| entry.desc(now, id, version))?;
                self.send_list(xid, &told, |flows| MultipartReply::FlowDesc { flows }, out);
            }
            MultipartRequest::FlowStats(asked) => {
                let told =
                    self.matching_entries(version, &asked, |id, entry| entry.counters(now, id))?;
                self.send_list(xid, &told, |flows| MultipartReply::FlowStats { flows }, out);
            }
            MultipartRequest::AggregateStats(asked) => {
                let told =
                    self.matching_entries(version, &asked, |_, it| (it.packets, it.bytes))?;
                let told = AggregateStats { stats: sums(&told) };
                self.send_single(xid, MultipartReply::AggregateStats(told), out);
            }
            MultipartRequest::TableStats => {
                let told = self.table_stats(version);
                self.send_list(xid, &told, |tables| MultipartReply::TableStats { tables }, out);
            }
            MultipartRequest::TableFeatures { tables } if tables.is_empty() => {
                let told = self.table_features(version);
                self.send_list(xid, &told, |tables| MultipartReply::TableFeatures { tables }, out);
            }
            MultipartRequest::TableFeatures { .. } => {
                return Err(error_reasons::TABLE_FEATURES_EPERM);
            }
            MultipartRequest::TableDesc => {
                let ids = (0..=u8::MAX).zip(&self.tables);
                let desc = |(table_id, _)| TableDesc { table_id, ..TableDesc::default() };
                let told: Vec<_> = ids.map(desc).collect();
                self.send_list(xid, &told, |tables| MultipartReply::TableDesc { tables }, out);
            }
            MultipartRequest::PortStats(asked) => {
                let told = self.ports.stats(now, self.check_port_exists(asked.port_no)?, version);
                self.send_list(xid, &told, |ports| MultipartReply::PortStats { ports }, out);
            }
            MultipartRequest::PortDesc(asked) => {
                let mut told = self.ports.descs(version);
                let port_no = self.check_port_exists(asked.port_no)?;
                told.retain(|port| port_no == PortNo::ANY || port.port_no == port_no);
                self.send_list(xid, &told, |ports| MultipartReply::PortDesc { ports }, out);
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
        asked: MultipartRequest,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let version = self.session.version();
        match asked {
            MultipartRequest::GroupStats(asked) if version > Version::V1_0 => {
                let uses =
                    |id: GroupId| self.count_entries(|entry| entry.instruction_set.uses_group(id));
                let mut told = self.groups.stats(now, asked.group_id, uses);
                if version < Version::V1_3 {
                    // These versions have no field for the duration.
                    for group in &mut told {
                        (group.duration_sec, group.duration_nsec) = (0, 0);
                    }
                }
                self.send_list(xid, &told, |groups| MultipartReply::GroupStats { groups }, out);
            }
            MultipartRequest::GroupDesc(asked) if version > Version::V1_0 => {
                let told = self.groups.descs(asked.group_id);
                self.send_list(xid, &told, |groups| MultipartReply::GroupDesc { groups }, out);
            }
            MultipartRequest::GroupFeatures if version > Version::V1_1 => {
                let told = self.groups.features(self.actions(version).0);
                self.send_single(xid, MultipartReply::GroupFeatures(told), out);
            }
            MultipartRequest::MeterStats(asked) => {
                let uses =
                    |id: u32| self.count_entries(|entry| entry.instruction_set.uses_meter(id));
                let told = self.meters.stats(now, asked.meter_id, uses);
                self.send_list(xid, &told, |meters| MultipartReply::MeterStats { meters }, out);
            }
            MultipartRequest::MeterDesc(asked) => {
                let told = self.meters.descs(asked.meter_id);
                self.send_list(xid, &told, |meters| MultipartReply::MeterDesc { meters }, out);
            }
            MultipartRequest::MeterFeatures => {
                let told = self.meters.features(version);
                self.send_single(xid, MultipartReply::MeterFeatures(told), out);
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

    /// Applies `tell` to every flow entry that the request selects.
    fn matching_entries<T>(
        &self,
        version: Version,
        asked: &FlowStatsRequest,
        tell: impl Fn(u8, &FlowEntry) -> T,
    ) -> Result<Vec<T>, ErrorReason> {
        let every = asked.table_id == FlowMod::TABLE_ALL;
        if !every && usize::from(asked.table_id) >= self.tables.len() {
            return Err(error_reasons::BAD_TABLE_ID_ASKED);
        }
        let filter = FlowFilter {
            pattern: NormalizedMatch::new(&asked.matching, version, &[])?,
            strict: None,
            cookie: asked.cookie,
            cookie_mask: if version == Version::V1_0 { 0 } else { asked.cookie_mask },
            out_port: asked.out_port,
            out_group: asked.out_group,
        };
        let tables = (0..=u8::MAX).zip(&self.tables);
        let tables = tables.filter(|(id, _)| every || *id == asked.table_id);
        let told = tables.flat_map(|(id, table)| {
            let entries = table.select(&filter).into_iter().filter_map(|place| table.at(place));
            entries.map(|entry| tell(id, entry)).collect::<Vec<_>>()
        });
        Ok(told.collect())
    }

    fn count_entries(&self, is_meant: impl Fn(&FlowEntry) -> bool) -> u32 {
        let n =
            self.tables.iter().flat_map(FlowTable::iter).filter(|entry| is_meant(entry)).count();
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    /// The requested port, if it exists.
    fn check_port_exists(&self, port: PortNo) -> Result<PortNo, ErrorReason> {
        let known = port == PortNo::ANY || self.ports.contains(port);
        if known { Ok(port) } else { Err(error_reasons::BAD_PORT_ASKED) }
    }

    fn desc(&self) -> Box<SwitchDesc> {
        Box::new(SwitchDesc {
            mfr: "Sluice".into(),
            hw: "none".into(),
            sw: env!("CARGO_PKG_VERSION").into(),
            serial: self.config.datapath_id.to_string().as_str().into(),
            dp: "emulated switch".into(),
        })
    }
}

/// Most items in one message; fewer if they are long. Limits repeated encoding.
const ITEMS_MAX: usize = 512;

fn sums(counted: &[(u64, u64)]) -> Stats {
    let packets = counted.iter().map(|it| it.0).sum();
    let bytes = counted.iter().map(|it| it.1).sum();
    let flows = u32::try_from(counted.len()).unwrap_or(u32::MAX);
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
            matching: self.matching.clone(),
            stats: self.stats(now),
            instructions: self.instructions.clone(),
        }
    }

    fn counters(&self, now: Instant, table_id: u8) -> FlowStats {
        FlowStats {
            table_id,
            reason: FlowStatsReason::STATS_REQUEST,
            priority: self.priority,
            matching: self.matching.clone(),
            stats: self.stats(now),
        }
    }
}
