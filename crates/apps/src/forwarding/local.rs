//! Usual frames between two hosts of one switch, in a loop of their own. What is said of them is, byte for byte, what the
//! general way says; `crates/apps/tests/fast_path.rs` compares both.

use sluice_fastpath::{ForwardingDecision, PathTemplates, install_paths_v1_0, install_paths_v1_3};
use sluice_openflow::view::PacketIns;
use sluice_openflow::{DatapathId, EncodeError, Encoder, EthHeader, MacAddr, PortNo};
use sluice_sdk::view::{NetworkView, SwitchPort};
use sluice_sdk::{CoarseTime, Ctx, FAST_PATH_PORTS_MAX, SwitchHosts};

use super::flood::is_edge;
use super::flow::Flow;
use super::waiting::Passing;
use super::{Config, Forwarding, Matching, rules, waiting};

/// A switch of this worker: what is written to it for usual frames.
#[derive(Debug)]
pub(super) struct Local {
    ways: PathTemplates,
    edges: EdgePorts,
}

/// The ports of a switch at which there are hosts, kept until the view is another.
#[derive(Debug)]
struct EdgePorts {
    version: Option<u64>,
    /// A bit for each port.
    bits: [u64; FAST_PATH_PORTS_MAX as usize / 64],
}

impl Local {
    /// For the switch that `out` writes to.
    ///
    /// # Errors
    /// Names what its version cannot say.
    pub(super) fn new(cfg: &Config, out: &Encoder<'_>) -> Result<Self, EncodeError> {
        let ways = PathTemplates::new(out, &rule(cfg), cfg.both_directions)?;
        Ok(Self {
            ways,
            edges: EdgePorts { version: None, bits: [0; FAST_PATH_PORTS_MAX as usize / 64] },
        })
    }

    /// Sets it otherwise.
    pub(super) fn configure(&mut self, cfg: &Config) {
        let drawn = self.ways.set_flow(&rule(cfg), cfg.both_directions);
        debug_assert!(drawn.is_ok(), "every version can say it");
    }
}

/// A rule between two hosts; what is filled in later is anything.
fn rule(cfg: &Config) -> sluice_openflow::FlowMod {
    rules::rule(cfg, Flow::pair(MacAddr::BROADCAST, MacAddr::BROADCAST), PortNo(1))
}

impl EdgePorts {
    fn refresh(&mut self, view: &NetworkView, id: DatapathId) {
        if self.version == Some(view.version()) {
            return;
        }
        self.version = Some(view.version());
        self.bits.fill(0);
        let ports = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys());
        let low = ports.filter(|port| port.0 < FAST_PATH_PORTS_MAX);
        for port in low.filter(|&&port| is_edge(view, SwitchPort::new(id, port))) {
            if let Some(bits) = self.bits.get_mut(port.0 as usize / 64) {
                *bits |= 1 << (port.0 % 64);
            }
        }
    }

    #[inline]
    fn has(&self, port: PortNo) -> bool {
        self.bits.get(port.0 as usize / 64).is_some_and(|bits| bits >> (port.0 % 64) & 1 == 1)
    }
}

impl Forwarding {
    /// Answers the usual frames that come next: ordinary ones from a host where it is to another one at another port of
    /// the same switch, under rules that match both addresses.
    pub(super) fn answer_usual(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        let Some(Some(local)) = self.locals.get_mut(ctx.switch_index.index()) else { return };
        if self.cfg.matching != Matching::Pair || self.switches.refuses(ctx.datapath_id, ctx.now) {
            return;
        }
        let time = waiting::time(self.cfg.waiting, ctx.rtt());
        let (view, residents) = ctx.network.view_and_fast_path_hosts();
        let Some(residents) = residents.switch(ctx.switch_index) else { return };
        local.edges.refresh(view, ctx.datapath_id);
        let (passing, both) = (self.waiting.passing(ctx.now, time), self.cfg.both_directions);
        let (now, edges) = (residents.coarse_time(ctx.now), &local.edges);
        let mut desk = Desk { residents, edges, passing, both, now, loaded: 0, waited: 0 };
        let (out, ways) = (&mut ctx.switch, &local.ways);
        let course = |desk: &mut Desk<'_>, port, eth: &EthHeader, frame: &[u8]| {
            desk.course(port, eth, frame)
        };
        install_paths_v1_0(frames, out, ways, &mut desk, course);
        let course = |desk: &mut Desk<'_>, port, eth: &EthHeader, frame: &[u8]| {
            desk.course(port, eth, frame)
        };
        install_paths_v1_3(frames, out, ways, &mut desk, course);
        let Desk { loaded, waited, .. } = desk;
        self.counters.paths_installed += loaded;
        self.counters.flow_entries_written += if both { 2 * loaded } else { loaded };
        self.counters.packets_during_installation += waited;
    }
}

/// All that says what becomes of a usual frame.
struct Desk<'a> {
    residents: &'a mut SwitchHosts,
    edges: &'a EdgePorts,
    passing: Passing<'a>,
    both: bool,
    now: CoarseTime,
    loaded: u64,
    waited: u64,
}

impl Desk<'_> {
    /// What becomes of a frame; `None` for one that the general way answers.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn course(
        &mut self,
        in_port: PortNo,
        eth: &EthHeader,
        frame: &[u8],
    ) -> Option<ForwardingDecision> {
        let mut from = self.residents.find(eth.src_bits())?;
        let entry = from.entry();
        if entry.port() != in_port || !entry.is_ordinary(eth, frame) || !self.edges.has(in_port) {
            return None;
        }
        from.mark_seen(self.now);
        let to = self.residents.find(eth.dst_bits())?.entry().port();
        if to == in_port || !self.edges.has(to) {
            return None;
        }
        if self.passing.has_or_begins(eth, self.both) {
            self.waited += 1;
            return Some(ForwardingDecision::SendOnly(to));
        }
        self.loaded += 1;
        Some(ForwardingDecision::Install(to))
    }
}
