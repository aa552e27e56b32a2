//! One learning switch: its host table, and what it does with packets.

use arrayvec::ArrayVec;
use sluice_fastpath::{TemplateValues, install_flows_v1_0, install_flows_v1_3};
use sluice_openflow::view::{PacketIn, PacketIns};
use sluice_openflow::{
    EncodeError, Encoder, EthHeader, Ethernet, Field, FlowMod, FlowModCommand, PacketOutRef,
    PortNo, VlanId,
};
use sluice_sdk::{AnswerCache, AnswerForm, AnswerRule, Ctx, SwitchIndex, Verdict};

use super::Config;
use super::messages::Messages;
use super::table::{BurstTable, ChangedHosts, HashedKey, HostChange, Key, Table, Tick};

/// Packet-ins that are parsed and prefetched before the first of them is handled. `lab/look-ahead` has the
/// measurement.
const PREFETCH_WINDOW: usize = 32;

/// Bytes of the frame check sequence, which some switches count in `total_len` and none sends. IEEE 802.3 §3.2.9.
const FCS_LEN: usize = 4;

/// One switch.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) table: Table,
    messages: Messages,
    /// An engine that answers in the place of the application has the templates.
    is_form_published: bool,
}

/// The current time and the age at which hosts expire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ageing {
    pub(super) now: Tick,
    pub(super) timeout: Tick,
}

/// Counters of all switches of a worker.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) moved: u64,
    /// Evictions of switches that have disconnected; the tables of connected ones have their own counters.
    pub(super) evicted: u64,
}

/// The addresses of a frame, with the hashed keys of its source and destination.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostPair<'a> {
    eth: &'a EthHeader,
    vlan: Option<VlanId>,
    dst_key: HashedKey,
    src_key: HashedKey,
}

impl Bridge {
    /// A bridge with an empty table, for the switch that `out` writes to.
    pub(super) fn new(cfg: &Config, seed: u64, out: &Encoder<'_>) -> Result<Self, EncodeError> {
        let (messages, hosts_max) = (Messages::new(cfg, out)?, cfg.hosts_max as usize);
        Ok(Self { table: Table::new(hosts_max, seed), messages, is_form_published: false })
    }

    /// Applies a new configuration. Hosts stay known.
    pub(super) fn configure(&mut self, cfg: &Config) {
        self.table.set_max(cfg.hosts_max as usize);
        self.messages.configure(cfg);
        self.is_form_published = false;
        self.table.publish_again();
    }

    #[cfg(test)]
    pub(super) fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Brings what an engine knows, which answers in the place of the application, up to date. Returns whether it may answer.
    pub(super) fn publish_answers(
        &mut self,
        switch: SwitchIndex,
        timeout: Tick,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        let templates = self.messages.templates();
        let Some([flow_mod, packet_out]) = templates.common_form() else { return false };
        if !self.is_form_published {
            let (version, rule) = (templates.flow.version(), AnswerRule::Hosts { timeout });
            let form = AnswerForm { version, flow_mod, packet_out, rule };
            if !cache.set_form(switch, &form) {
                return false;
            }
            self.is_form_published = true;
        }
        let changed = match self.table.take_changes() {
            ChangedHosts::Some(hosts) => hosts,
            ChangedHosts::All(hosts) => {
                cache.withdraw_all(switch);
                hosts
            }
        };
        for (host, location) in changed {
            match location {
                Some((port, tick)) => cache.publish(switch, host, port, tick),
                None => cache.withdraw(switch, host),
            }
        }
        true
    }

    /// Handles one packet-in. With `TEMPLATES`, its answer is a patched template.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(super) fn handle<const TEMPLATES: bool>(
        &mut self,
        p: PacketIn<'_>,
        ageing: Ageing,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) -> Verdict {
        let Some(hosts) = self.parse(p.frame) else { return discard(p.buffer_id, p.in_port, ctx) };
        self.forward::<TEMPLATES>(&p, &hosts, ageing, ctx, counters);
        Verdict::Stop
    }

    /// Handles packet-ins, with `TEMPLATES` the common ones in a fast path.
    pub(super) fn handle_burst<const TEMPLATES: bool>(
        &mut self,
        packets: &mut PacketIns<'_>,
        ageing: Ageing,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) {
        loop {
            if TEMPLATES {
                self.handle_common::<0>(packets, ageing, ctx);
            }
            let Some(p) = packets.next() else { break };
            self.handle::<TEMPLATES>(p, ageing, ctx, counters);
        }
    }

    /// Handles packet-ins without templates. Apart from the others, which otherwise take 5 % more instructions.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_burst_without_templates(
        &mut self,
        prefetches: bool,
        packets: &mut PacketIns<'_>,
        ageing: Ageing,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) {
        if prefetches {
            self.handle_burst_prefetching::<false>(packets, ageing, ctx, counters);
        } else {
            self.handle_burst::<false>(packets, ageing, ctx, counters);
        }
    }

    /// Like [`handle_burst`](Self::handle_burst), but prefetches the buckets of several packet-ins before it handles
    /// the first, so that memory accesses overlap.
    pub(super) fn handle_burst_prefetching<const TEMPLATES: bool>(
        &mut self,
        packets: &mut PacketIns<'_>,
        ageing: Ageing,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) {
        let mut batch = ArrayVec::<(PacketIn<'_>, Option<HostPair<'_>>), PREFETCH_WINDOW>::new();
        let (mut is_last, mut window) = (false, 1);
        while !is_last {
            let before = packets.taken();
            if TEMPLATES {
                self.handle_common::<PREFETCH_WINDOW>(packets, ageing, ctx);
            }
            // After a long run of common packet-ins, an uncommon one is probably alone; after a short run there are
            // more.
            let is_long = packets.taken() - before >= PREFETCH_WINDOW as u64;
            window = if is_long { 1 } else { PREFETCH_WINDOW.min(window * 2) };
            while batch.len() < window {
                let Some(p) = packets.next() else {
                    is_last = true;
                    break;
                };
                let hosts = self.parse(p.frame);
                if let Some(hosts) = &hosts {
                    self.table.prefetch(hosts.src_key);
                    self.table.prefetch(hosts.dst_key);
                }
                batch.push((p, hosts));
            }
            for (p, hosts) in &batch {
                match hosts {
                    Some(hosts) => self.forward::<TEMPLATES>(p, hosts, ageing, ctx, counters),
                    None => _ = discard(p.buffer_id, p.in_port, ctx),
                }
            }
            batch.clear();
        }
    }

    /// Handles common packet-ins until the first that is not: to known hosts, from hosts that are new or have not
    /// moved.
    fn handle_common<const AHEAD: usize>(
        &mut self,
        packets: &mut PacketIns<'_>,
        ageing: Ageing,
        ctx: &mut Ctx<'_>,
    ) {
        if self.table.prefers_new_sources() {
            self.install_flows::<AHEAD, true>(packets, ageing, ctx);
        } else {
            self.install_flows::<AHEAD, false>(packets, ageing, ctx);
        }
    }

    /// Like [`handle_common`](Self::handle_common), optimized for new sources if `FLOODED`, else for known ones.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn install_flows<const AHEAD: usize, const FLOODED: bool>(
        &mut self,
        packets: &mut PacketIns<'_>,
        ageing: Ageing,
        ctx: &mut Ctx<'_>,
    ) {
        let table = &mut self.table.for_burst(ageing.now, ageing.timeout);
        let templates = self.messages.templates();
        let out = &mut ctx.switch;
        let hash = |table: &mut BurstTable<'_>, eth: &EthHeader| {
            if AHEAD == 0 { table.hash(eth) } else { table.hash_and_prefetch(eth) }
        };
        let route = |table: &mut BurstTable<'_>, hashes, eth: &EthHeader, port| {
            table.route::<FLOODED>(hashes, eth, port)
        };
        install_flows_v1_0::<AHEAD, _, _>(packets, out, templates, table, hash, route);
        let route = |table: &mut BurstTable<'_>, hashes, eth: &EthHeader, port| {
            table.route::<FLOODED>(hashes, eth, port)
        };
        install_flows_v1_3::<AHEAD, _, _>(packets, out, templates, table, hash, route);
    }

    /// Parses the addresses of a frame; `None` if bridges do not forward it.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn parse<'a>(&self, frame: &'a [u8]) -> Option<HostPair<'a>> {
        let eth = Ethernet::new(frame)?;
        // Reserved addresses are group addresses, so that one check is enough for most frames.
        if eth.src.is_group() || (eth.dst.is_group() && eth.dst.is_bridge_reserved()) {
            return None;
        }
        let dst_key = self.table.hashed(Key::new(eth.header.dst_bits(), eth.vlan));
        let src_key = self.table.hashed(Key::new(eth.header.src_bits(), eth.vlan));
        let vlan = eth.tagged.then_some(eth.vlan);
        Some(HostPair { eth: eth.header, vlan, dst_key, src_key })
    }

    /// Learns the source and forwards the frame: installs a flow entry if the destination is known, floods if not.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn forward<const TEMPLATES: bool>(
        &mut self,
        p: &PacketIn<'_>,
        hosts: &HostPair<'_>,
        ageing: Ageing,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) {
        match self.table.learn(hosts.src_key, p.in_port, ageing.now) {
            HostChange::Unchanged => {}
            HostChange::New => self.table.confirm(hosts.dst_key),
            HostChange::Moved(from) => {
                counters.moved += 1;
                delete_flows(*hosts.eth, hosts.vlan, from, ctx);
            }
        }
        let known = if hosts.eth.dst.is_group() {
            None
        } else {
            self.table.get(hosts.dst_key, ageing.now, ageing.timeout)
        };
        let mut values = TemplateValues {
            buffer_id: p.buffer_id,
            in_port: p.in_port,
            eth: hosts.eth,
            vlan: hosts.vlan,
            out_port: PortNo::FLOOD,
        };
        match known {
            None => self.send_packet::<TEMPLATES>(p.frame, p.total_len, values, ctx),
            Some(port) if port == p.in_port => _ = discard(p.buffer_id, p.in_port, ctx),
            Some(port) => {
                values.out_port = port;
                debug_assert_encoded(self.messages.flow::<TEMPLATES>(&mut ctx.switch, &values));
                if p.buffer_id.is_none() {
                    self.send_packet::<TEMPLATES>(p.frame, p.total_len, values, ctx);
                }
            }
        }
    }

    /// Sends the frame out of the port. If the switch neither buffered the frame nor sent all of it, it is lost, and
    /// its sender will repeat it.
    #[inline(never)]
    fn send_packet<const TEMPLATES: bool>(
        &self,
        frame: &[u8],
        total_len: u16,
        values: TemplateValues<'_>,
        ctx: &mut Ctx<'_>,
    ) {
        if values.buffer_id.is_some() || frame.len() + FCS_LEN >= usize::from(total_len) {
            // A frame that fits a PACKET_IN may be too long for a PACKET_OUT. It is lost.
            let _ = self.messages.packet_out::<TEMPLATES>(&mut ctx.switch, &values, frame);
        }
    }
}

/// Drops a frame, and frees its buffer in the switch.
#[cold]
fn discard(buffer_id: Option<u32>, in_port: PortNo, ctx: &mut Ctx<'_>) -> Verdict {
    if buffer_id.is_none() {
        return Verdict::Continue;
    }
    debug_assert_encoded(ctx.switch.packet_out(&PacketOutRef {
        buffer_id,
        in_port,
        actions: &[],
        frame: &[],
    }));
    Verdict::Stop
}

/// Deletes the flow entries to a host that has left the port `from`. They are all in the first table; versions before
/// 1.2 cannot name all tables.
#[cold]
fn delete_flows(eth: EthHeader, vlan: Option<VlanId>, from: PortNo, ctx: &mut Ctx<'_>) {
    let vlan = vlan.map_or_else(Field::untagged, Field::vlan);
    debug_assert_encoded(ctx.switch.flow_mod(&FlowMod {
        command: FlowModCommand::DELETE,
        out_port: from,
        matching: [Field::eth_dst(eth.src), vlan].into(),
        ..FlowMod::default()
    }));
}

/// Checks, in debug builds, that a message was encoded. Every version can express the messages that are passed here;
/// port numbers that 1.0 lacks never come from a switch of 1.0.
#[inline]
pub(super) fn debug_assert_encoded(written: Result<u32, EncodeError>) {
    debug_assert!(written.is_ok(), "{written:?}");
}
