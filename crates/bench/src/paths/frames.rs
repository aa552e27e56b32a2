//! The frames of hosts: announcements, the first packets of requests, and the answers to them.

use std::net::Ipv4Addr;

use sluice_openflow::MacAddr;

/// Length of all frames, without FCS: the minimum.
const FRAME_LEN: usize = 60;

/// Offset of the IPv4 header.
const IP_AT: usize = 14;

/// Offset of the UDP header.
const UDP_AT: usize = 34;

/// Marks the frames of path requests, before the request's id at the end of the frame. Devices that push or pop tags do
/// not change that.
const MARK: [u8; 8] = *b"sluicepr";

/// UDP ports of a request. The answer has them exchanged.
const UDP_PORTS: [u16; 2] = [10_000, 10_001];

/// The addresses of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostAddresses {
    pub(super) mac: MacAddr,
    pub(super) ip: Ipv4Addr,
}

/// A gratuitous ARP reply, with which a host announces itself.
pub(super) fn announcement(host: HostAddresses) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    let head = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2];
    let ip = host.ip.octets();
    put(&mut frame, 0, &MacAddr::BROADCAST.0);
    put(&mut frame, 6, &host.mac.0);
    put(&mut frame, 12, &head);
    for at in [22, 32] {
        put(&mut frame, at, &host.mac.0);
        put(&mut frame, at + 6, &ip);
    }
    frame
}

/// The first packet from one host to another: a UDP datagram that contains the id of a request.
pub(super) fn first_packet(
    source: HostAddresses,
    destination: HostAddresses,
    request: u64,
) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    put(&mut frame, 0, &destination.mac.0);
    put(&mut frame, 6, &source.mac.0);
    // IPv4, 46 bytes, time to live 64, UDP.
    put(&mut frame, 12, &[0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
    put(&mut frame, IP_AT + 12, &source.ip.octets());
    put(&mut frame, IP_AT + 16, &destination.ip.octets());
    let checksum = ip_checksum(&frame);
    put(&mut frame, IP_AT + 10, &checksum.to_be_bytes());
    put(&mut frame, UDP_AT, &UDP_PORTS[0].to_be_bytes());
    put(&mut frame, UDP_AT + 2, &UDP_PORTS[1].to_be_bytes());
    // 26 bytes without a checksum, which IPv4 allows.
    put(&mut frame, UDP_AT + 4, &[0, 26]);
    put(&mut frame, FRAME_LEN - 16, &MARK);
    put(&mut frame, FRAME_LEN - 8, &request.to_be_bytes());
    frame
}

/// The request to which a frame belongs.
pub(super) fn request_of(frame: &[u8]) -> Option<u64> {
    let (rest, id) = frame.split_last_chunk::<8>()?;
    rest.ends_with(&MARK).then(|| u64::from_be_bytes(*id))
}

/// Turns a first packet, as it arrived, into the answer to it: exchanges source and destination.
pub(super) fn make_answer(frame: &mut [u8]) {
    swap(frame, 0, 6, 6);
    // Tags and labels are as long before as after.
    let net = frame.len().saturating_sub(FRAME_LEN - IP_AT);
    swap(frame, net + 12, net + 16, 4);
    swap(frame, net + 20, net + 22, 2);
}

/// Exchanges `len` bytes at two offsets.
fn swap(frame: &mut [u8], a: usize, b: usize, len: usize) {
    for n in 0..len {
        if b + n < frame.len() {
            frame.swap(a + n, b + n);
        }
    }
}

/// The checksum of the IPv4 header of `frame`, whose own field is zero. RFC 1071.
fn ip_checksum(frame: &[u8; FRAME_LEN]) -> u16 {
    let header = frame.get(IP_AT..UDP_AT).unwrap_or_default();
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap_or_default()
}

fn put(frame: &mut [u8; FRAME_LEN], at: usize, value: &[u8]) {
    if let Some(field) = frame.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::Ethernet;

    use super::*;

    fn host(n: u8) -> HostAddresses {
        HostAddresses { mac: MacAddr([2, 0, 0, 0, 0, n]), ip: Ipv4Addr::new(10, 0, 0, n) }
    }

    #[test]
    fn the_answer_to_a_first_packet_is_the_first_packet_in_the_other_direction() {
        let mut frame = first_packet(host(1), host(2), 7 << 40);
        assert_eq!(request_of(&frame), Some(7 << 40));
        make_answer(&mut frame);
        let mut expected = first_packet(host(2), host(1), 7 << 40);
        swap(&mut expected, UDP_AT, UDP_AT + 2, 2);
        assert_eq!(frame, expected);
    }

    #[test]
    fn the_ip_checksum_is_correct() {
        let frame = first_packet(host(200), host(255), 1);
        assert_eq!(ip_checksum(&frame), 0, "with its checksum, the header sums up to zero");
    }

    #[test]
    fn only_frames_of_requests_have_an_id() {
        let frame = announcement(host(3));
        assert_eq!(request_of(&frame), None);
        assert_eq!(request_of(&[0; 7]), None);
        let eth = Ethernet::new(&frame).unwrap();
        assert_eq!((eth.dst, eth.src), (MacAddr::BROADCAST, host(3).mac));
    }
}
