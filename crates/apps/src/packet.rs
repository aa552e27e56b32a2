//! Parts of packet-ins that several applications read.

use sluice_openflow::Ethernet;
use sluice_openflow::view::PacketIn;

/// Bytes of the checksum of a frame. Some switches count it in `total_len`, none sends it. IEEE 802.3 §3.2.9.
const FCS_LEN: usize = 4;

/// Whether a packet-in contains the whole frame and not only a part.
#[inline]
pub(crate) fn is_complete(p: &PacketIn<'_>) -> bool {
    has_all_bytes(p) || p.frame.len() + FCS_LEN == usize::from(p.total_len)
}

/// The same, but not for a switch that counts the checksum: of other switches, a frame that is cut off by just as much seems
/// complete.
#[inline]
pub(crate) fn has_all_bytes(p: &PacketIn<'_>) -> bool {
    p.frame.len() >= usize::from(p.total_len)
}

/// What follows the Ethernet header of a frame, which may be truncated, and its VLAN tag.
#[inline]
pub(crate) fn payload<'a>(eth: &Ethernet<'_>, frame: &'a [u8]) -> Option<&'a [u8]> {
    frame.get(if eth.tagged { 18 } else { 14 }..)
}
