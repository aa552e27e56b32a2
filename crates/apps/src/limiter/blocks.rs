//! The blocks of a switch's ports and hosts that people were notified of.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sluice_openflow::PortNo;
use sluice_sdk::view::{BlockedPort, SwitchPort};
use sluice_sdk::{Ctx, Network, Notification, PortBlock};

use super::flow_entries::{PacketKind, PacketRateLimit};

/// A block that is not repeated for this long has ended. While a port sends too many packet-ins, the next block follows sooner.
const RELEASED_AFTER: Duration = Duration::from_secs(2);

/// Ports of a switch whose blocks are published at most: a switch with more is under attack as a whole, and all workers get each record.
const PUBLISHED_MAX: usize = 256;

/// Ports of a switch whose blocks are published in one tick at most.
const PUBLISHED_PER_TICK_MAX: usize = 16;

/// The current blocks, at most one for each port and kind of packet-in.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    current: Vec<Block>,
    /// Ports whose blocks have changed since they were published.
    changed: BTreeSet<PortNo>,
    /// Ports that have a record.
    published: BTreeSet<SwitchPort>,
}

#[derive(Debug)]
struct Block {
    kind: PacketKind,
    until: Instant,
    about: PortBlock,
}

impl Blocks {
    /// Records that a kind of packet-in of a port is blocked for `block_s` seconds. Notifies people unless it was blocked before.
    pub(super) fn add(
        &mut self,
        (no, kind): (PortNo, PacketKind),
        limit: PacketRateLimit,
        block_s: u16,
        ctx: &mut Ctx<'_>,
    ) {
        let host = match kind {
            PacketKind::HostMisses(host) => Some(host),
            PacketKind::Misses | PacketKind::Probes => None,
        };
        let about = PortBlock {
            at: SwitchPort::new(ctx.datapath_id, no),
            host,
            packets: kind.name(),
            packets_per_s_max: limit.packets_per_s(),
            block_s,
        };
        let until = ctx.now + Duration::from_secs(block_s.into());
        let is_same = |it: &&mut Block| {
            it.about.at == about.at
                && std::mem::discriminant(&it.kind) == std::mem::discriminant(&kind)
        };
        let existing = self.current.iter_mut().find(is_same);
        match existing {
            Some(block) if block.about.host == host => {
                block.until = until;
                if !self.published.contains(&about.at) {
                    // There may be room for it now.
                    self.changed.insert(no);
                }
                return;
            }
            Some(block) => {
                let old = std::mem::replace(block, Block { kind, until, about });
                ctx.network.notify(ctx.now, Notification::PortReleased(old.about));
            }
            None => self.current.push(Block { kind, until, about }),
        }
        ctx.network.notify(ctx.now, Notification::PortBlocked(about));
        self.changed.insert(no);
    }

    /// The switch has disconnected: nothing is known of its blocks any more.
    pub(super) fn end(self, now: Instant, network: &mut Network) {
        for at in self.published {
            network.publish_record(now, at, None::<BlockedPort>);
        }
    }

    /// Notifies people of the blocks that have ended, and publishes what has changed.
    pub(super) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        for ended in self.current.extract_if(.., |block| block.until + RELEASED_AFTER <= now) {
            ctx.network.notify(now, Notification::PortReleased(ended.about));
            self.changed.insert(ended.about.at.port);
        }
        for _ in 0..PUBLISHED_PER_TICK_MAX {
            let Some(no) = self.changed.pop_first() else { break };
            self.publish(no, ctx);
        }
    }

    /// Publishes which blocks a port has now. Ports that the switch has not described are left out: it can invent as many as it likes.
    fn publish(&mut self, no: PortNo, ctx: &mut Ctx<'_>) {
        let at = SwitchPort::new(ctx.datapath_id, no);
        let of_port = self.current.iter().map(|block| block.about).filter(|about| about.at == at);
        let blocks: Vec<_> = of_port.collect();
        let is_listed = self.published.contains(&at)
            || (self.published.len() < PUBLISHED_MAX && ctx.view().port(at).is_some());
        if blocks.is_empty() {
            self.published.remove(&at);
        } else if is_listed {
            self.published.insert(at);
        }
        if is_listed {
            ctx.publish_record(at, (!blocks.is_empty()).then_some(BlockedPort(blocks)));
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{DatapathId, Encoder, MacAddr, Version};
    use sluice_sdk::SwitchIndex;
    use sluice_sdk::view::{Fact, PortInfo, PortRole, SwitchInfo};

    use super::super::Config;
    use super::*;

    /// Calls `act` at a time.
    fn act(network: &mut Network, now: Instant, act: impl FnOnce(&mut Ctx<'_>)) {
        let (mut tx, mut urgent, mut xid) = (Vec::new(), Vec::new(), 1);
        let encoder = Encoder::new(&mut tx, Version::V1_3, &mut xid);
        act(&mut Ctx::new(now, SwitchIndex(0), DatapathId(1), encoder, &mut urgent, network));
    }

    /// Calls `act` at a time; returns whether ports were blocked (`true`) or released, and which hosts of them.
    fn notified(
        network: &mut Network,
        now: Instant,
        act: impl FnOnce(&mut Ctx<'_>),
    ) -> Vec<(bool, Option<MacAddr>)> {
        self::act(network, now, act);
        let facts = network.take_facts();
        let notifications = facts.iter().filter_map(|published| published.fact.event());
        let about = notifications.filter_map(|notification| match notification {
            Notification::PortBlocked(block) => Some((true, block.host)),
            Notification::PortReleased(block) => Some((false, block.host)),
            _ => None,
        });
        about.collect()
    }

    #[test]
    fn people_are_notified_once_of_a_block_that_is_repeated_and_of_its_end() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (mut blocks, mut network) = (Blocks::default(), Network::new(0));
        let limit = PacketKind::Misses.limit(&Config::default());
        let mut block = |network: &mut Network, kind, seconds| {
            notified(network, at(seconds), |ctx| blocks.add((PortNo(1), kind), limit, 5, ctx))
        };
        let hosts = [1, 2].map(MacAddr::from_u64);
        let [first, second] = hosts.map(PacketKind::HostMisses);
        assert_eq!(block(&mut network, PacketKind::Misses, 0), [(true, None)]);
        assert_eq!(block(&mut network, PacketKind::Misses, 6), []);
        assert_eq!(block(&mut network, first, 6), [(true, Some(hosts[0]))]);
        let next = block(&mut network, second, 7);
        assert_eq!(next, [(false, Some(hosts[0])), (true, Some(hosts[1]))]);
        let mut tick = |seconds| notified(&mut network, at(seconds), |ctx| blocks.tick(ctx));
        assert_eq!(tick(12), []);
        assert_eq!(tick(13), [(false, None)]);
        assert_eq!(tick(20), [(false, Some(hosts[1]))]);
        assert_eq!(tick(21), []);
    }

    /// A switch that says packet-ins are from ports which it does not have, or from thousands, must not fill the views of all workers.
    #[test]
    fn blocks_of_described_ports_are_published_a_few_at_a_time() {
        const PORTS: u32 = 1000;
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (mut blocks, mut network) = (Blocks::default(), Network::new(0));
        let port = PortInfo {
            name: "eth0".into(),
            hw_addr: MacAddr::default(),
            is_up: true,
            role: PortRole::Edge,
        };
        let ports = (1..=PORTS).map(|no| (PortNo(no), port.clone())).collect();
        network.publish(start, Fact::Switch(DatapathId(1), Some(SwitchInfo { ports })));
        let limit = PacketKind::Misses.limit(&Config::default());
        let records = |network: &mut Network| {
            let facts = network.take_facts();
            let of_blocks = facts.iter().filter(|it| it.fact.record::<BlockedPort>().is_some());
            of_blocks.count()
        };
        notified(&mut network, start, |ctx| {
            for no in 1..=2 * PORTS {
                blocks.add((PortNo(no), PacketKind::Misses), limit, 5, ctx);
            }
        });
        assert_eq!(records(&mut network), 0);
        let mut published = 0;
        for _ in 0..200 {
            let mut in_tick = 0;
            act(&mut network, start, |ctx| blocks.tick(ctx));
            in_tick += records(&mut network);
            assert!(in_tick <= PUBLISHED_PER_TICK_MAX, "{in_tick}");
            published += in_tick;
        }
        assert_eq!(published, PUBLISHED_MAX);
        assert_eq!(network.view().records::<BlockedPort>().count(), PUBLISHED_MAX);
        // A block that ends makes room for another.
        let later = start + Duration::from_secs(7);
        act(&mut network, later, |ctx| {
            blocks.add((PortNo(PORTS), PacketKind::Misses), limit, 5, ctx);
        });
        for _ in 0..200 {
            act(&mut network, later, |ctx| blocks.tick(ctx));
        }
        let kept: Vec<_> = network.view().records::<BlockedPort>().map(|(at, _)| at.port).collect();
        assert_eq!(kept, [PortNo(PORTS)]);
        blocks.end(later, &mut network);
        assert_eq!(network.view().records::<BlockedPort>().count(), 0);
    }
}
