//! The blocks of a switch's ports and hosts that people were notified of.

use std::time::{Duration, Instant};

use sluice_openflow::PortNo;
use sluice_sdk::view::{BlockedPort, SwitchPort};
use sluice_sdk::{Ctx, Network, Notification, PortBlock};

use super::flow_entries::{PacketKind, PacketRateLimit};

/// A block that is not repeated for this long has ended. While a port sends too many packet-ins, the next block follows sooner.
const RELEASED_AFTER: Duration = Duration::from_secs(2);

/// The current blocks, at most one for each port and kind of packet-in.
#[derive(Debug, Default)]
pub(super) struct Blocks(Vec<Block>);

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
        let existing = self.0.iter_mut().find(is_same);
        match existing {
            Some(block) if block.about.host == host => return block.until = until,
            Some(block) => {
                let old = std::mem::replace(block, Block { kind, until, about });
                ctx.network.notify(ctx.now, Notification::PortReleased(old.about));
            }
            None => self.0.push(Block { kind, until, about }),
        }
        ctx.network.notify(ctx.now, Notification::PortBlocked(about));
        self.publish(about.at, ctx);
    }

    /// No port of the switch is blocked any more.
    pub(super) fn end(self, now: Instant, network: &mut Network) {
        for block in self.0 {
            network.publish_record(now, block.about.at, None::<BlockedPort>);
        }
    }

    /// Publishes which blocks a port has now.
    fn publish(&self, at: SwitchPort, ctx: &mut Ctx<'_>) {
        let of_port = self.0.iter().map(|block| block.about).filter(|about| about.at == at);
        let blocks: Vec<_> = of_port.collect();
        ctx.publish_record(at, (!blocks.is_empty()).then_some(BlockedPort(blocks)));
    }

    /// Notifies people of the blocks that have ended.
    pub(super) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        let ended = self.0.extract_if(.., |block| block.until + RELEASED_AFTER <= now);
        let ended: Vec<_> = ended.map(|block| block.about).collect();
        for about in ended {
            ctx.network.notify(now, Notification::PortReleased(about));
            self.publish(about.at, ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{DatapathId, Encoder, MacAddr, Version};
    use sluice_sdk::SwitchIndex;

    use super::super::Config;
    use super::*;

    /// Calls `act` at a time; returns whether ports were blocked (`true`) or released, and which hosts of them.
    fn notified(
        network: &mut Network,
        now: Instant,
        act: impl FnOnce(&mut Ctx<'_>),
    ) -> Vec<(bool, Option<MacAddr>)> {
        let (mut tx, mut urgent, mut xid) = (Vec::new(), Vec::new(), 1);
        let encoder = Encoder::new(&mut tx, Version::V1_3, &mut xid);
        act(&mut Ctx::new(now, SwitchIndex(0), DatapathId(1), encoder, &mut urgent, network));
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
        let blocked = |network: &Network| {
            let blocked =
                network.view().record::<BlockedPort>(SwitchPort::new(DatapathId(1), PortNo(1)));
            blocked.map_or(0, |BlockedPort(blocks)| blocks.len())
        };
        assert_eq!(blocked(&network), 2);
        let mut tick = |seconds| notified(&mut network, at(seconds), |ctx| blocks.tick(ctx));
        assert_eq!(tick(12), []);
        assert_eq!(tick(13), [(false, None)]);
        assert_eq!(tick(20), [(false, Some(hosts[1]))]);
        assert_eq!(tick(21), []);
        assert_eq!(blocked(&network), 0);
    }
}
