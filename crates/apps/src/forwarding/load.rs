//! Frames on their way: rules for those that follow, and the frame itself to where it goes.

use sluice_openflow::{Action, DatapathId, Field, FlowMod, Message, PacketOutRef, PortNo};
use sluice_sdk::Ctx;
use sluice_sdk::view::SwitchPort;

use super::flood::{Verdict, is_edge};
use super::flow::Flow;
use super::routes::{Choice, Hop};
use super::{Came, Forwarding, From, Matching, rules, say, waiting};

/// Bytes of a frame that fit a `PACKET_OUT` in every version, whatever the actions.
const FRAME_MAX: usize = 60_000;

/// Seed of the hash that chooses among paths of equal length; the same in all workers, so that they choose the same path.
const PATH_SEED: u64 = 0;

/// Outputs of one `PACKET_OUT`, so that a frame fits beside them: 16 bytes each.
const OUTPUTS_MAX: usize = 256;

const _: () = assert!(FRAME_MAX + OUTPUTS_MAX * 16 + 128 <= 0xffff);

impl Forwarding {
    /// Sends a frame to the host at `to`, and has the rules for its flow loaded.
    pub(super) fn forward(&mut self, came: &Came<'_>, to: SwitchPort, ctx: &mut Ctx<'_>) {
        let Some(flow) = Flow::read(&came.eth, came.p.frame, self.cfg.matching) else {
            return self.send_on(came, to, ctx);
        };
        let is_sayable = !flow.is_ipv6() || self.switches.says_ipv6(ctx.datapath_id);
        if !is_sayable || self.switches.refuses(ctx.datapath_id, ctx.now) {
            return self.send_on(came, to, ctx);
        }
        if self.waiting.has(&flow, ctx.now) {
            self.counters.packets_during_installation += 1;
            return self.send_after(came, to, ctx);
        }
        let view = ctx.view();
        let source = view.host(came.src()).map(|host| host.at);
        let source = source.filter(|&source| is_edge(view, source));
        let start = match came.from {
            From::Edge => came.at,
            From::Link => source.unwrap_or(came.at),
        };
        let has_source = source == Some(start);
        let Some(path) = self.path(flow, start, to, ctx) else {
            self.counters.no_path += 1;
            return came.let_go(ctx);
        };
        let back = if has_source && self.cfg.both_directions {
            self.path(flow.reversed(), to, start, ctx)
        } else {
            None
        };
        let time = waiting::time(self.cfg.waiting, ctx.rtt());
        self.waiting.begin(flow, ctx.now, time);
        if back.is_some() {
            self.waiting.begin(flow.reversed(), ctx.now, time);
        }
        self.counters.paths_installed += 1;
        let is_here = |path: &[Hop]| matches!(path, [hop] if hop.switch == ctx.datapath_id);
        if is_here(&path) && back.as_deref().is_none_or(is_here) {
            self.load_here(came, flow, to, back.is_some(), ctx);
        } else {
            self.load(came, flow, &path, back.as_deref(), ctx);
        }
    }

    /// The way of a flow. Both directions have the same, or all ways to a host are one tree if rules match only that.
    fn path(
        &mut self,
        flow: Flow,
        from: SwitchPort,
        to: SwitchPort,
        ctx: &Ctx<'_>,
    ) -> Option<Vec<Hop>> {
        let choice = match self.cfg.matching {
            Matching::Dst => Choice::Tree(flow.hash_dst(PATH_SEED)),
            Matching::Pair | Matching::FiveTuple => Choice::Both(flow.hash_both(PATH_SEED)),
        };
        self.routes.path(ctx.view(), from, to, choice)
    }

    /// Both hosts are at this switch: nobody else is written to.
    fn load_here(
        &mut self,
        came: &Came<'_>,
        flow: Flow,
        to: SwitchPort,
        back: bool,
        ctx: &mut Ctx<'_>,
    ) {
        if back {
            self.counters.flow_entries_written += 1;
            say(ctx.switch.flow_mod(&rules::rule(&self.cfg, flow.reversed(), came.at.port)));
        }
        self.counters.flow_entries_written += 1;
        let buffer_id = came.p.buffer_id;
        let rule = FlowMod { buffer_id, ..rules::rule(&self.cfg, flow, to.port) };
        say(ctx.switch.flow_mod(&rule));
        if buffer_id.is_none() {
            self.send_on(came, to, ctx);
        }
    }

    /// Rules go to all switches of a way, to the last one first: by mail, which keeps that order.
    fn load(
        &mut self,
        came: &Came<'_>,
        flow: Flow,
        path: &[Hop],
        back: Option<&[Hop]>,
        ctx: &mut Ctx<'_>,
    ) {
        // A frame of which the switch has more than we do goes by the rule.
        let mut kept = came.p.buffer_id.filter(|_| !came.is_whole());
        for hop in path.iter().rev().filter(|hop| hop.in_port != hop.out_port) {
            let buffer_id = if hop.switch == ctx.datapath_id && hop.out_port != came.at.port {
                kept.take()
            } else {
                None
            };
            let rule = FlowMod { buffer_id, ..rules::rule(&self.cfg, flow, hop.out_port) };
            self.write(hop.switch, rule, ctx);
        }
        for hop in back.into_iter().flatten().rev() {
            self.write(hop.switch, rules::rule(&self.cfg, flow.reversed(), hop.out_port), ctx);
        }
        let is_released = came.p.buffer_id.is_some() && !came.is_whole() && kept.is_none();
        match path.last() {
            Some(last) if !is_released => {
                self.send_on(came, SwitchPort::new(last.switch, last.out_port), ctx);
            }
            _ => {}
        }
    }

    fn write(&mut self, to: DatapathId, rule: FlowMod, ctx: &mut Ctx<'_>) {
        if self.switches.refuses(to, ctx.now) {
            // An older rule of the same match could lead back.
            return ctx.send_to(to, Message::FlowMod(rules::delete_just(rule)));
        }
        self.counters.flow_entries_written += 1;
        ctx.send_to(to, Message::FlowMod(rule));
    }

    /// Sends the frame alone: out at the far end, so that no switch on the way asks.
    fn send_on(&mut self, came: &Came<'_>, to: SwitchPort, ctx: &mut Ctx<'_>) {
        if to.switch == ctx.datapath_id && (came.is_whole() || came.p.buffer_id.is_some()) {
            let actions = [Action::output(to.port)];
            say(ctx
                .switch
                .packet_out(&PacketOutRef { actions: &actions, ..PacketOutRef::answer(&came.p) }));
            return;
        }
        if came.p.buffer_id.is_some() {
            // Behind the rules that were written: packets that wait behind this one are then let go by them.
            let nothing = answer(came, vec![]);
            ctx.send_to(ctx.datapath_id, Message::PacketOut(nothing));
        }
        self.send_from(to.switch, &[to.port], came, ctx);
    }

    /// Sends the frame after the rules that were written for it: out at the far end, or by these rules, if the switch
    /// has more of it than we do.
    fn send_after(&mut self, came: &Came<'_>, to: SwitchPort, ctx: &mut Ctx<'_>) {
        if to.switch == ctx.datapath_id || came.p.buffer_id.is_none() || came.is_whole() {
            return self.send_on(came, to, ctx);
        }
        let by_rules = answer(came, vec![Action::output(PortNo::TABLE)]);
        ctx.send_to(ctx.datapath_id, Message::PacketOut(by_rules));
    }

    /// Sends a copy of the frame out of ports of another switch.
    fn send_from(&mut self, at: DatapathId, ports: &[PortNo], came: &Came<'_>, ctx: &mut Ctx<'_>) {
        if !came.is_whole() || came.p.frame.len() > FRAME_MAX {
            self.counters.truncated += 1;
            return;
        }
        for ports in ports.chunks(OUTPUTS_MAX) {
            let out = sluice_openflow::PacketOut {
                buffer_id: None,
                matching: [Field::in_port(PortNo::CONTROLLER)].into(),
                actions: ports.iter().map(|&port| Action::output(port)).collect(),
                data: came.p.frame.to_vec(),
            };
            ctx.send_to(at, Message::PacketOut(out));
        }
    }

    /// Sends a frame out of all ports at the edge, of all switches that there is a way to, but the one it came from; into
    /// the tree, if that leads there.
    ///
    /// # Cost
    /// A copy for each of these switches.
    pub(super) fn flood(&mut self, came: &Came<'_>, ctx: &mut Ctx<'_>) {
        let max = self.cfg.floods_per_s_max;
        let verdict = self.floods.judge(came.at, came.p.frame, ctx.now, max);
        let count = match verdict {
            Verdict::Flood => &mut self.counters.floods,
            Verdict::TooMany => &mut self.counters.floods_over_limit,
            Verdict::CameRound => &mut self.counters.floods_looped,
        };
        *count += 1;
        if verdict != Verdict::Flood {
            return came.let_go(ctx);
        }
        let edges = self.edges.of(ctx.view(), &mut self.routes, ctx.datapath_id);
        let part = self.trees.part(ctx.datapath_id, came.eth.dst, ctx.network);
        let part = part.filter(|_| came.from == From::Edge);
        self.counters.floods_along_tree += u64::from(part.is_some());
        let own = edges.iter().find(|outlets| outlets.switch == ctx.datapath_id);
        let links = part.iter().flat_map(|part| part.ports(ctx.datapath_id));
        let ports = own.into_iter().flat_map(|outlets| &outlets.ports).chain(links);
        let outputs = ports.filter(|&&port| port != came.at.port).map(|&port| Action::output(port));
        let actions: Vec<_> = outputs.collect();
        let is_there = came.p.buffer_id.is_some() || (came.is_whole() && !actions.is_empty());
        if is_there {
            say(ctx
                .switch
                .packet_out(&PacketOutRef { actions: &actions, ..PacketOutRef::answer(&came.p) }));
        }
        let here = ctx.datapath_id;
        let is_reached = |id| id == here || part.as_ref().is_some_and(|part| part.has(id));
        for outlets in edges.iter().filter(|outlets| !is_reached(outlets.switch)) {
            self.send_from(outlets.switch, &outlets.ports, came, ctx);
        }
    }

    /// A frame came from a switch that sends to a host that nobody knows any more: its rule goes, so that it asks.
    pub(super) fn turn_back(&mut self, came: &Came<'_>, ctx: &mut Ctx<'_>) {
        let Some(link) = ctx.view().link_to(came.at) else { return };
        let from = link.from;
        let Some(flow) = Flow::read(&came.eth, came.p.frame, Matching::Pair) else { return };
        if !self.waiting.has(&flow, ctx.now) {
            self.waiting.begin(flow, ctx.now, waiting::time(self.cfg.waiting, ctx.rtt()));
            self.counters.stale_deletions += 1;
            let rule = rules::Named::ByPort.delete_to(came.dst(), from.port);
            ctx.send_to(from.switch, Message::FlowMod(rule));
        }
    }
}

/// What is done with the frame that the switch keeps.
fn answer(came: &Came<'_>, actions: Vec<Action>) -> sluice_openflow::PacketOut {
    sluice_openflow::PacketOut {
        buffer_id: came.p.buffer_id,
        matching: [Field::in_port(came.p.in_port)].into(),
        actions,
        data: Vec::new(),
    }
}
