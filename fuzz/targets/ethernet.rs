//! Any frame: what is read of it is in its first 18 bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_openflow::{Ethernet, MacAddr};

fuzz_target!(|frame: &[u8]| {
    let read = Ethernet::new(frame);
    assert_eq!(Ethernet::new(frame.get(..18).unwrap_or(frame)), read);
    let Some(eth) = read else { return };
    assert!(eth.vlan.0 < 4096 && (eth.tagged || eth.vlan.0 == 0));
    assert!(frame.starts_with(&eth.dst.0));
    assert_eq!(MacAddr::from_u64(eth.src.to_u64()), eth.src);
});
