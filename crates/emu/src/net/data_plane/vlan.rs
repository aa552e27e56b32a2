//! VLAN tags of hosts. IEEE 802.1Q.

use sluice_openflow::{Ethernet, VlanId};

/// Ethernet type of a VLAN tag.
const TAG: u16 = 0x8100;

/// Bits of the priority in a tag, with which frames of hosts in a VLAN are sent.
const PRIORITY: u16 = 5 << 13;

/// Length of the two addresses, which precede the tag.
const ADDRESSES_LEN: usize = 12;

/// A frame of a host whose frames are tagged with `vlan`, if any.
pub(super) fn tag(frame: Vec<u8>, vlan: Option<VlanId>) -> Vec<u8> {
    let Some((vlan, (addresses, rest))) = vlan.zip(frame.split_at_checked(ADDRESSES_LEN)) else {
        return frame;
    };
    let tag = [TAG.to_be_bytes(), (PRIORITY | vlan.0).to_be_bytes()].concat();
    [addresses, &tag, rest].concat()
}

/// What a host with `vlan` gets of a frame: those of its VLAN, without their tag. One without a VLAN also gets priority-tagged
/// frames, and one that sends priority-tagged frames gets untagged ones.
pub(super) fn untag(frame: Vec<u8>, vlan: Option<VlanId>) -> Option<Vec<u8>> {
    let header = Ethernet::new(&frame)?;
    let (is_tagged, is_member) = (header.tagged, header.vlan == vlan.unwrap_or(VlanId(0)));
    if !is_member {
        return None;
    }
    match frame.split_at_checked(ADDRESSES_LEN) {
        Some((addresses, rest)) if is_tagged => {
            Some([addresses, rest.get(4..).unwrap_or_default()].concat())
        }
        _ => Some(frame),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_gets_the_frames_of_its_vlan_without_their_tag() {
        let frame = [&[2; 12][..], &[8, 6], &[7; 46]].concat();
        let vlans = [None, Some(VlanId(0)), Some(VlanId(10)), Some(VlanId(11))];
        for from in vlans {
            let sent = tag(frame.clone(), from);
            assert_eq!(sent.len(), frame.len() + if from.is_some() { 4 } else { 0 });
            for to in vlans {
                let is_same = from.unwrap_or(VlanId(0)) == to.unwrap_or(VlanId(0));
                assert_eq!(untag(sent.clone(), to), is_same.then(|| frame.clone()));
            }
        }
        assert_eq!(untag(vec![2; 5], None), None);
    }
}
