//! Packets buffered until the controller answers. §6.1.2.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::{ErrorReason, PortNo};

use super::error_reasons;
use sluice_pipeline::FlowKey;

/// Buffer ids are serial numbers of 31 bits, so none is `OFP_NO_BUFFER`.
const SLOT_BITS: u64 = 0x7fff_ffff;

/// A buffered packet, with further packets of its flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BufferedPackets {
    since: Instant,
    pub(crate) in_port: PortNo,
    /// The packets; the first one caused the packet-in.
    pub(crate) packets: Vec<Vec<u8>>,
    flow: Option<FlowKey>,
}

/// The packet buffer.
#[derive(Debug)]
pub(crate) struct PacketBuffer {
    capacity: usize,
    timeout: Duration,
    /// By serial number, and thus by age.
    by_serial: BTreeMap<u64, BufferedPackets>,
    flows: HashMap<FlowKey, u64>,
    n_packets: usize,
    next: u64,
}

impl PacketBuffer {
    /// A buffer for `capacity` packets, each for at most `timeout`.
    pub(crate) fn new(capacity: usize, timeout: Duration) -> Self {
        let (by_serial, flows) = (BTreeMap::new(), HashMap::default());
        Self { capacity, timeout, by_serial, flows, n_packets: 0, next: 0 }
    }

    /// Buffers a packet, as the first of `flow` if given; `None` if the buffer is full.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        in_port: PortNo,
        packet: &[u8],
        flow: Option<FlowKey>,
    ) -> Option<u32> {
        let id =
            u32::try_from(self.next & SLOT_BITS).ok().filter(|_| self.n_packets < self.capacity)?;
        if let Some(flow) = &flow {
            self.flows.insert(flow.clone(), self.next);
        }
        let packets = vec![packet.to_vec()];
        self.by_serial.insert(self.next, BufferedPackets { since: now, in_port, packets, flow });
        self.next += 1;
        self.n_packets += 1;
        Some(id)
    }

    /// Buffers another packet of a flow; `false` if no packet of the flow is buffered, or the buffer is full.
    pub(crate) fn append(&mut self, flow: &FlowKey, packet: &[u8]) -> bool {
        let first = self.flows.get(flow).and_then(|serial| self.by_serial.get_mut(serial));
        match first {
            Some(first) if self.n_packets < self.capacity => {
                first.packets.push(packet.to_vec());
                self.n_packets += 1;
                true
            }
            _ => false,
        }
    }

    /// Takes the packets with buffer id `id`.
    ///
    /// # Errors
    /// `BUFFER_UNKNOWN` if the id was never assigned, `BUFFER_EMPTY` if its packets have been taken or discarded.
    pub(crate) fn take(&mut self, id: u32) -> Result<BufferedPackets, ErrorReason> {
        let age = self.next.wrapping_sub(u64::from(id)) & SLOT_BITS;
        let serial = self.next.checked_sub(age).filter(|_| age > 0 && u64::from(id) <= SLOT_BITS);
        let serial = serial.ok_or(error_reasons::BUFFER_UNKNOWN)?;
        self.remove(serial).ok_or(error_reasons::BUFFER_EMPTY)
    }

    /// Takes the packets of `flow`.
    pub(crate) fn take_flow(&mut self, flow: &FlowKey) -> Option<BufferedPackets> {
        let serial = self.flows.get(flow).copied()?;
        self.remove(serial)
    }

    /// Takes all but the first packet of each flow for whose first packet `is_selected` holds.
    pub(crate) fn take_followers(
        &mut self,
        is_selected: impl Fn(PortNo, &[u8]) -> bool,
    ) -> Vec<(PortNo, Vec<u8>)> {
        let mut taken = vec![];
        for buffered in self.by_serial.values_mut() {
            let has_followers = buffered.packets.len() > 1;
            if has_followers
                && buffered.packets.first().is_some_and(|it| is_selected(buffered.in_port, it))
            {
                let followers = buffered.packets.split_off(1);
                taken.extend(followers.into_iter().map(|packet| (buffered.in_port, packet)));
                if let Some(flow) = buffered.flow.take() {
                    self.flows.remove(&flow);
                }
            }
        }
        self.n_packets -= taken.len();
        taken
    }

    /// Discards packets that exceeded the timeout; returns how many.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        let mut n = 0;
        while self.deadline().is_some_and(|at| at <= now) {
            let Some((&serial, _)) = self.by_serial.first_key_value() else { break };
            n += self.remove(serial).map_or(0, |buffered| buffered.len());
        }
        n
    }

    /// Discards all packets; returns how many. Their ids are not reused.
    pub(crate) fn clear(&mut self) -> u64 {
        let n = self.by_serial.values().map(BufferedPackets::len).sum();
        self.by_serial.clear();
        self.flows.clear();
        self.n_packets = 0;
        n
    }

    fn remove(&mut self, serial: u64) -> Option<BufferedPackets> {
        let buffered = self.by_serial.remove(&serial)?;
        self.n_packets -= buffered.packets.len();
        if let Some(flow) = &buffered.flow {
            self.flows.remove(flow);
        }
        Some(buffered)
    }

    /// When the oldest packet exceeds the timeout.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (_, oldest) = self.by_serial.first_key_value()?;
        oldest.since.checked_add(self.timeout)
    }

    /// Number of buffered packets.
    pub(crate) const fn len(&self) -> usize {
        self.n_packets
    }
}

impl BufferedPackets {
    fn len(&self) -> u64 {
        u64::try_from(self.packets.len()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_pipeline::PacketFields;

    const PORT: PortNo = PortNo(1);

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    #[test]
    fn a_buffer_id_is_valid_once() {
        let mut buffer = PacketBuffer::new(2, Duration::from_secs(1));
        let id = buffer.insert(now(), PORT, &[1], None).unwrap();
        assert_eq!(buffer.take(id + 1), Err(error_reasons::BUFFER_UNKNOWN));
        assert_eq!(buffer.take(u32::MAX), Err(error_reasons::BUFFER_UNKNOWN));
        assert_eq!(buffer.take(id).unwrap().packets, [[1]]);
        assert_eq!(buffer.take(id), Err(error_reasons::BUFFER_EMPTY));
        assert_eq!(buffer.len(), 0);
    }

    #[test]
    fn capacity_and_timeout_are_respected() {
        let (mut buffer, start) = (PacketBuffer::new(2, Duration::from_secs(1)), now());
        let first = buffer.insert(start, PORT, &[1], None).unwrap();
        let later = start + Duration::from_millis(500);
        assert!(buffer.insert(later, PORT, &[2], None).is_some());
        assert_eq!(buffer.insert(later, PORT, &[3], None), None);
        assert_eq!(buffer.deadline(), Some(start + Duration::from_secs(1)));
        assert_eq!(buffer.expire(start + Duration::from_secs(1)), 1);
        assert_eq!(buffer.take(first), Err(error_reasons::BUFFER_EMPTY));
        assert!(buffer.insert(later, PORT, &[3], None).is_some());
    }

    #[test]
    fn packets_of_a_flow_share_a_buffer_id() {
        let (mut buffer, flow) =
            (PacketBuffer::new(2, Duration::from_secs(1)), PacketFields::NONE.flow());
        assert!(!buffer.append(&flow, &[0]), "no packet of the flow is buffered");
        let id = buffer.insert(now(), PORT, &[1], Some(flow.clone())).unwrap();
        assert!(buffer.append(&flow, &[2]));
        assert!(!buffer.append(&flow, &[3]), "the buffer is full");
        assert_eq!(buffer.take(id).unwrap().packets, [[1], [2]]);
        assert!(!buffer.append(&flow, &[4]), "the flow is no longer buffered");
        assert!(buffer.insert(now(), PORT, &[5], Some(flow.clone())).is_some());
        assert_eq!(buffer.take_flow(&flow).unwrap().packets, [[5]]);
        assert_eq!((buffer.take_flow(&flow), buffer.len()), (None, 0));
    }
}
