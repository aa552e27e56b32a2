//! One switch of the learning bridge: where its hosts are, and what is written to it.

use arrayvec::ArrayVec;
use sluice_fastpath::{MessageTemplate, TemplateValues, install_flows_v1_0, install_flows_v1_3};
use sluice_openflow::view::{PacketIn, PacketIns};
use sluice_openflow::{
    Action, EncodeError, Encoder, EthHeader, Ethernet, Field, FlowMod, FlowModCommand, Instruction,
    MacAddr, PacketOutRef, PortNo, VlanId,
};
use sluice_sdk::{Ctx, Verdict};

use super::table::{Key, Learnt, Spot, Standing, Table, Tick};
use super::{Config, Matching};

/// Frames looked at before the first of them is answered. `lab/look-ahead` has the measurement.
const WINDOW: usize = 32;

/// Bytes of the checksum of a frame, which some switches count in `total_len` and none sends up. IEEE 802.3 §3.2.9.
const FCS_LEN: usize = 4;

/// One switch.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) table: Table,
    /// The rule for a conversation.
    rule: MessageTemplate,
    /// A frame on its way out of a port.
    frame: MessageTemplate,
}

/// What time it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) now: Tick,
    pub(super) timeout: Tick,
}

/// What is counted for people.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) moved: u64,
    /// Of switches that are gone; tables count theirs.
    pub(super) forgotten: u64,
}

/// The two hosts of a frame, and where they belong in the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked<'a> {
    eth: &'a EthHeader,
    vlan: Option<VlanId>,
    dst_spot: Spot,
    src_spot: Spot,
}

impl Bridge {
    /// A bridge that knows no host, for the switch that `out` writes to.
    pub(super) fn new(cfg: &Config, seed: u64, out: &Encoder<'_>) -> Result<Self, EncodeError> {
        let actions = [Action::output(PortNo(1))];
        let in_port = PortNo(1);
        let frame = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame: &[] };
        let rule = rule(cfg, |rule| MessageTemplate::flow_mod(out, rule))?;
        let table = Table::new(cfg.hosts_max as usize, seed);
        Ok(Self { table, rule, frame: MessageTemplate::packet_out(out, &frame)? })
    }

    /// Sets it otherwise. Hosts stay known.
    pub(super) fn configure(&mut self, cfg: &Config) {
        self.table.set_max(cfg.hosts_max as usize);
        let drawn = rule(cfg, |rule| self.rule.set_flow_mod(rule));
        debug_assert!(drawn.is_ok(), "every version can say it");
    }

    /// Answers one frame.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(super) fn hear(
        &mut self,
        p: PacketIn<'_>,
        clock: Clock,
        ctx: &mut Ctx<'_>,
        counts: &mut Counts,
    ) -> Verdict {
        let Some(looked) = self.look(p.frame) else { return discard(p.buffer_id, p.in_port, ctx) };
        self.answer(&p, &looked, clock, ctx, counts);
        Verdict::Stop
    }

    /// Answers frames, the usual ones in a loop of their own.
    pub(super) fn hear_near(
        &mut self,
        frames: &mut PacketIns<'_>,
        clock: Clock,
        ctx: &mut Ctx<'_>,
        counts: &mut Counts,
    ) {
        loop {
            self.usual::<0>(frames, clock, ctx);
            let Some(p) = frames.next() else { break };
            self.hear(p, clock, ctx, counts);
        }
    }

    /// The same, and looks at some more before it answers one, so that the waits for memory overlap.
    pub(super) fn hear_far(
        &mut self,
        frames: &mut PacketIns<'_>,
        clock: Clock,
        ctx: &mut Ctx<'_>,
        counts: &mut Counts,
    ) {
        let mut all = ArrayVec::<(PacketIn<'_>, Option<Looked<'_>>), WINDOW>::new();
        let (mut is_last, mut spell) = (false, 1);
        while !is_last {
            let before = frames.taken();
            self.usual::<WINDOW>(frames, clock, ctx);
            // What ends a long run of usual frames is one that is not; what ends a short one is not alone.
            let is_long = frames.taken() - before >= WINDOW as u64;
            spell = if is_long { 1 } else { WINDOW.min(spell * 2) };
            while all.len() < spell {
                let Some(p) = frames.next() else {
                    is_last = true;
                    break;
                };
                let looked = self.look(p.frame);
                if let Some(looked) = &looked {
                    self.table.fetch(looked.src_spot);
                    self.table.fetch(looked.dst_spot);
                }
                all.push((p, looked));
            }
            for (p, looked) in &all {
                match looked {
                    Some(looked) => self.answer(p, looked, clock, ctx, counts),
                    None => _ = discard(p.buffer_id, p.in_port, ctx),
                }
            }
            all.clear();
        }
    }

    /// Answers the usual frames that come next: to hosts that are known, from others that are new or where they were.
    fn usual<const AHEAD: usize>(
        &mut self,
        frames: &mut PacketIns<'_>,
        clock: Clock,
        ctx: &mut Ctx<'_>,
    ) {
        if self.table.is_flooded() {
            self.stamp::<AHEAD, true>(frames, clock, ctx);
        } else {
            self.stamp::<AHEAD, false>(frames, clock, ctx);
        }
    }

    /// The same, quick for new hosts or for known ones.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn stamp<const AHEAD: usize, const FLOODED: bool>(
        &mut self,
        frames: &mut PacketIns<'_>,
        clock: Clock,
        ctx: &mut Ctx<'_>,
    ) {
        let table = &mut self.table.standing(clock.now, clock.timeout);
        let (out, rule) = (&mut ctx.switch, &self.rule);
        let look = |table: &mut Standing<'_>, eth: &EthHeader| {
            if AHEAD == 0 { table.look(eth) } else { table.fetch(eth) }
        };
        let route = |table: &mut Standing<'_>, hashes, eth: &EthHeader, port| {
            table.route::<FLOODED>(hashes, eth, port)
        };
        install_flows_v1_0::<AHEAD, _, _>(frames, out, rule, table, look, route);
        let route = |table: &mut Standing<'_>, hashes, eth: &EthHeader, port| {
            table.route::<FLOODED>(hashes, eth, port)
        };
        install_flows_v1_3::<AHEAD, _, _>(frames, out, rule, table, look, route);
    }

    /// Reads the addresses of a frame; `None` for one that no bridge forwards.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn look<'a>(&self, frame: &'a [u8]) -> Option<Looked<'a>> {
        let eth = Ethernet::new(frame)?;
        // Reserved addresses are group addresses: most frames are done with one look.
        if eth.src.is_group() || (eth.dst.is_group() && eth.dst.is_bridge_reserved()) {
            return None;
        }
        let dst_spot = self.table.spot(Key::new(eth.header.dst_bits(), eth.vlan));
        let src_spot = self.table.spot(Key::new(eth.header.src_bits(), eth.vlan));
        let vlan = eth.tagged.then_some(eth.vlan);
        Some(Looked { eth: eth.header, vlan, dst_spot, src_spot })
    }

    /// Learns where the source is and sends the frame on: with a rule if the destination is known, to all if not.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn answer(
        &mut self,
        p: &PacketIn<'_>,
        looked: &Looked<'_>,
        clock: Clock,
        ctx: &mut Ctx<'_>,
        counts: &mut Counts,
    ) {
        match self.table.learn(looked.src_spot, p.in_port, clock.now) {
            Learnt::Known => {}
            Learnt::New => self.table.prove(looked.dst_spot),
            Learnt::Moved(from) => {
                counts.moved += 1;
                forget_rules(*looked.eth, looked.vlan, from, ctx);
            }
        }
        let known = if looked.eth.dst.is_group() {
            None
        } else {
            self.table.get(looked.dst_spot, clock.now, clock.timeout)
        };
        let mut fill = TemplateValues {
            buffer_id: p.buffer_id,
            in_port: p.in_port,
            eth: looked.eth,
            vlan: looked.vlan,
            out_port: PortNo::FLOOD,
        };
        match known {
            None => self.send(p.frame, p.total_len, fill, ctx),
            Some(port) if port == p.in_port => _ = discard(p.buffer_id, p.in_port, ctx),
            Some(port) => {
                fill.out_port = port;
                say(self.rule.encode(&mut ctx.switch, &fill));
                if p.buffer_id.is_none() {
                    self.send(p.frame, p.total_len, fill, ctx);
                }
            }
        }
    }

    /// Sends a frame on its way. One that came up cut off and is not kept by the switch cannot be: its sender
    /// will repeat it.
    #[inline(never)]
    fn send(&self, frame: &[u8], total_len: u16, fill: TemplateValues<'_>, ctx: &mut Ctx<'_>) {
        if fill.buffer_id.is_some() {
            say(self.frame.encode(&mut ctx.switch, &fill));
        } else if frame.len() + FCS_LEN >= usize::from(total_len) {
            // A frame that just fits its PACKET_IN is too long for a PACKET_OUT, and lost as frames may be.
            let _ = self.frame.encode_with_frame(&mut ctx.switch, &fill, frame);
        }
    }
}

/// Lets go of a frame that is not forwarded.
#[cold]
fn discard(buffer_id: Option<u32>, in_port: PortNo, ctx: &mut Ctx<'_>) -> Verdict {
    if buffer_id.is_none() {
        return Verdict::Continue;
    }
    say(ctx.switch.packet_out(&PacketOutRef { buffer_id, in_port, actions: &[], frame: &[] }));
    Verdict::Stop
}

/// A host left a port: the rules that point there go. They are all in the first table; versions before 1.2 have no
/// way to name every one.
#[cold]
fn forget_rules(eth: EthHeader, vlan: Option<VlanId>, from: PortNo, ctx: &mut Ctx<'_>) {
    let vlan = vlan.map_or_else(Field::untagged, Field::vlan);
    say(ctx.switch.flow_mod(&FlowMod {
        command: FlowModCommand::DELETE,
        out_port: from,
        matching: [Field::eth_dst(eth.src), vlan].into(),
        ..FlowMod::default()
    }));
}

/// Hands the rule for a conversation to `draw`; what is filled in later is anything.
fn rule<T>(cfg: &Config, draw: impl FnOnce(&FlowMod) -> T) -> T {
    let any = MacAddr::BROADCAST;
    let (dst, src) = (Field::eth_dst(any), Field::eth_src(any));
    let fields = [Field::in_port(PortNo(1)), src, dst, Field::untagged()];
    let skipped = match cfg.matching {
        Matching::PortPair => 0,
        Matching::Pair => 1,
        Matching::Dst => 2,
    };
    draw(&FlowMod {
        idle_timeout: cfg.idle_timeout_s,
        hard_timeout: cfg.hard_timeout_s,
        priority: cfg.priority,
        matching: fields.into_iter().skip(skipped).collect(),
        instructions: vec![Instruction::apply([Action::output(PortNo(1))])],
        ..FlowMod::default()
    })
}

/// All that is said here has a form in every version, but for a port number beyond what 1.0 has: such a port was
/// never heard of from a switch of 1.0.
#[inline]
pub(super) fn say(written: Result<u32, EncodeError>) {
    debug_assert!(written.is_ok(), "{written:?}");
}
