//! Follows single frames through a network: where each comes out, and how often it takes each link.

use std::collections::BTreeMap;

use sluice_openflow::{MacAddr, PortNo};

use crate::topology::PortRef;

use super::link::{LinkEnd, LinkSide};

/// The type of frames that are followed: the first that IEEE 802 leaves to local experiments. The four bytes behind
/// it are the number of the frame.
pub const TRACED_ETHERTYPE: u16 = 0x88b5;

/// What is remembered at most; when there is more, all is forgotten.
const TRACES_MAX: usize = 1 << 20;

/// Before all other places.
const FIRST: PortRef = PortRef { switch: 0, port: PortNo(0) };

/// How often frames that are followed came by.
#[derive(Debug, Default)]
pub struct FrameTraces {
    /// By number and port of the switch: to a host.
    hosts: BTreeMap<(u32, PortRef), u32>,
    /// By number, link and the side from which it is taken.
    links: BTreeMap<(u32, usize, LinkSide), u32>,
}

impl FrameTraces {
    /// A frame with this number to all, from `src`.
    pub fn frame(src: MacAddr, number: u32) -> Vec<u8> {
        let mut frame = [&[0xff; 6][..], &src.0].concat();
        frame.extend(TRACED_ETHERTYPE.to_be_bytes());
        frame.extend(number.to_be_bytes());
        frame.resize(60, 0);
        frame
    }

    /// The ports at which hosts heard a frame, and how often.
    pub fn deliveries(&self, number: u32) -> impl Iterator<Item = (PortRef, u32)> {
        let all = self.hosts.range((number, FIRST)..).take_while(move |((n, _), _)| *n == number);
        all.map(|(&(_, place), &times)| (place, times))
    }

    /// How often a frame took any link in one direction at most.
    pub fn link_crossings_max(&self, number: u32) -> u32 {
        let all = self.links.range((number, 0, LinkSide::A)..=(number, usize::MAX, LinkSide::B));
        all.map(|(_, &times)| times).max().unwrap_or(0)
    }

    /// A frame is sent into a link between `end` and some other end.
    pub(super) fn record(&mut self, frame: &[u8], wire: usize, from: LinkSide, ends: [LinkEnd; 2]) {
        let Some(number) = number(frame) else { return };
        if self.hosts.len() + self.links.len() >= TRACES_MAX {
            *self = Self::default();
        }
        match ends {
            [LinkEnd::Port(place), LinkEnd::Host(_)] => {
                if from == LinkSide::A {
                    *self.hosts.entry((number, place)).or_default() += 1;
                }
            }
            _ => *self.links.entry((number, wire, from)).or_default() += 1,
        }
    }
}

fn number(frame: &[u8]) -> Option<u32> {
    let kind = frame.get(12..14)?;
    let number = frame.get(14..)?.first_chunk()?;
    (kind == TRACED_ETHERTYPE.to_be_bytes()).then(|| u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_to_hosts_is_told_from_what_takes_links() {
        let at = |switch| PortRef { switch, port: PortNo(1) };
        let to_host = [LinkEnd::Port(at(3)), LinkEnd::Host(0)];
        let between = [LinkEnd::Port(at(0)), LinkEnd::Port(at(1))];
        let (mut traces, frame) = (FrameTraces::default(), FrameTraces::frame(MacAddr([2; 6]), 7));
        traces.record(&frame, 5, LinkSide::A, to_host);
        traces.record(&frame, 5, LinkSide::B, to_host);
        for side in [LinkSide::A, LinkSide::B, LinkSide::A] {
            traces.record(&frame, 1, side, between);
        }
        traces.record(&FrameTraces::frame(MacAddr([2; 6]), 8), 1, LinkSide::A, between);
        traces.record(&[0; 60], 1, LinkSide::A, between);
        assert_eq!(traces.deliveries(7).collect::<Vec<_>>(), [(at(3), 1)]);
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
