//! Traces single frames: to which hosts they are delivered, and how often they cross each link.

use std::collections::BTreeMap;

use sluice_openflow::{Ethernet, MacAddr};

use super::link::{LinkEnd, LinkSide};

/// Ethernet type of traced frames: the first local experimental one of IEEE 802. The next four bytes are the frame's
/// number.
pub const TRACED_ETHERTYPE: u16 = 0x88b5;

/// Most trace entries; when exceeded, all are discarded.
const TRACES_MAX: usize = 1 << 20;

/// Where traced frames were seen, and how often.
#[derive(Debug, Default)]
pub struct FrameTraces {
    /// By number, host, and what the host is attached to: deliveries.
    hosts: BTreeMap<(u32, usize, LinkEnd), u32>,
    /// By number, link and sending side: crossings of links that do not lead to a host.
    links: BTreeMap<(u32, usize, LinkSide), u32>,
}

impl FrameTraces {
    /// A traced frame from `src` to `dst`.
    pub fn frame(src: MacAddr, dst: MacAddr, number: u32) -> Vec<u8> {
        let mut frame = [dst.0, src.0].concat();
        frame.extend(TRACED_ETHERTYPE.to_be_bytes());
        frame.extend(number.to_be_bytes());
        frame.resize(60, 0);
        frame
    }

    /// Hosts to which a frame was delivered, and how often. A host that has moved is listed once for each location.
    pub fn deliveries(&self, number: u32) -> impl Iterator<Item = (usize, u32)> {
        let first = (number, 0, LinkEnd::FIRST);
        let all = self.hosts.range(first..).take_while(move |((n, ..), _)| *n == number);
        all.map(|(&(_, host, _), &times)| (host, times))
    }

    /// How often a frame crossed any link in one direction, at most.
    pub fn link_crossings_max(&self, number: u32) -> u32 {
        let all = self.links.range((number, 0, LinkSide::A)..=(number, usize::MAX, LinkSide::B));
        all.map(|(_, &times)| times).max().unwrap_or(0)
    }

    /// Records a frame that is sent into a link.
    pub(super) fn record(&mut self, frame: &[u8], wire: usize, from: LinkSide, ends: [LinkEnd; 2]) {
        let Some(number) = number(frame) else { return };
        if self.hosts.len() + self.links.len() >= TRACES_MAX {
            *self = Self::default();
        }
        match ends {
            [at, LinkEnd::Host(host)] => {
                if from == LinkSide::A {
                    *self.hosts.entry((number, host, at)).or_default() += 1;
                }
            }
            _ => *self.links.entry((number, wire, from)).or_default() += 1,
        }
    }
}

fn number(frame: &[u8]) -> Option<u32> {
    let header = Ethernet::new(frame)?;
    let start = if header.tagged { 18 } else { 14 };
    let number = frame.get(start..)?.first_chunk()?;
    (header.ethertype.0 == TRACED_ETHERTYPE).then(|| u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use sluice_openflow::PortNo;

    use super::*;
    use crate::topology::PortRef;

    #[test]
    fn deliveries_to_hosts_and_crossings_of_links_are_counted_separately() {
        let at = |switch| PortRef { switch, port: PortNo(1) };
        let to_host = [LinkEnd::Port(at(3)), LinkEnd::Host(4)];
        let between = [LinkEnd::Port(at(0)), LinkEnd::Port(at(1))];
        let frame = |number| FrameTraces::frame(MacAddr([2; 6]), MacAddr::BROADCAST, number);
        let (mut traces, seventh) = (FrameTraces::default(), frame(7));
        traces.record(&seventh, 5, LinkSide::A, to_host);
        traces.record(&seventh, 5, LinkSide::B, to_host);
        for side in [LinkSide::A, LinkSide::B, LinkSide::A] {
            traces.record(&seventh, 1, side, between);
        }
        traces.record(&frame(8), 1, LinkSide::A, between);
        traces.record(&[0; 60], 1, LinkSide::A, between);
        assert_eq!(traces.deliveries(7).collect::<Vec<_>>(), [(4, 1)]);
        assert_eq!(
            [
                traces.link_crossings_max(7),
                traces.link_crossings_max(8),
                traces.link_crossings_max(9)
            ],
            [2, 1, 0]
        );
    }
}
