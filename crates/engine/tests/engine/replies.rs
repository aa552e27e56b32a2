//! Replies in parts of many switches.

use sluice_openflow::view::Multipart;
use sluice_openflow::{MultipartType, Version};

use crate::lab::{Lab, wait_until};
use crate::peer::Peer;

/// Each holds less than it may; together it is too much, and who comes last goes.
#[test]
fn what_all_switches_hold_together_is_bounded() {
    let lab = Lab::new(|cfg| cfg.session.multipart_total_bytes_max = 100_000);
    let mut switches: Vec<_> = (0..6).map(|id| Peer::switch(lab.addr, Version::V1_3, id)).collect();
    let zeros = vec![0; 20_000];
    let half = Multipart { kind: MultipartType::FLOW, more: true, body: &zeros };
    for switch in &mut switches {
        switch.say_part(half);
    }
    lab.must_end(1, "multipart_memory_limit");
    assert_eq!(lab.count("switches_connected", "1.3"), 5);
    drop(switches);
    wait_until("all to be gone", || lab.count("switches_connected", "") == 0);
    let mut switch = Peer::switch(lab.addr, Version::V1_3, 9);
    switch.say_part(half);
    switch.must_be_answered();
}
