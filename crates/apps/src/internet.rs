//! What applications that write Internet packets share: checksums, and the shortest frame.

use std::net::Ipv6Addr;

/// Shortest Ethernet frame, without its checksum and VLAN tag. IEEE 802.3 §4A.4.2.
pub(crate) const FRAME_BYTES_MIN: usize = 60;

/// The protocol number of `ICMPv6`, which includes MLD. RFC 4443 §1.
pub(crate) const ICMPV6: u8 = 58;

/// The sum of all 16-bit words in ones' complement: a checksum is its complement, and with the checksum it is 0xffff. All parts but
/// the last have an even length. RFC 1071.
pub(crate) fn internet_sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let (words, odd) = part.as_chunks::<2>();
        sum += words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum::<u64>();
        sum += odd.first().map_or(0, |&byte| u64::from(byte) << 8);
    }
    while let high @ 1.. = sum >> 16 {
        sum = (sum & 0xffff) + high;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was folded to 16 bits")]
    let sum = sum as u16;
    sum
}

/// The [sum](internet_sum) over the pseudo-header and an `ICMPv6` message. RFC 4443 §2.3.
pub(crate) fn icmpv6_sum(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> u16 {
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    internet_sum(&[&src.octets(), &dst.octets(), &len, &[0, 0, 0, ICMPV6], message])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        // The example of RFC 1071 §3.
        assert_eq!(internet_sum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]), 0xddf2);
        assert_eq!(internet_sum(&[&[0x00, 0x01, 0xf2, 0x03], &[0xf4, 0xf5, 0xf6]]), 0xdcfb);
        assert_eq!(internet_sum(&[]), 0);
    }
}
