//! Memory limit of multipart replies.

use sluice_openflow::view::Multipart;
use sluice_openflow::{MultipartType, Version};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::TestPeer;

/// Each switch is below its own limit. The one that exceeds the common limit is disconnected.
#[test]
fn incomplete_multipart_replies_of_all_switches_have_a_common_limit() {
    let test = TestEngine::new(|cfg| cfg.session.multipart_total_bytes_max = 100_000);
    let mut switches: Vec<_> =
        (0..6).map(|id| TestPeer::connect_switch(test.addr, Version::V1_3, id)).collect();
    let zeros = vec![0; 20_000];
    let first_part = Multipart { kind: MultipartType::FLOW, more: true, body: &zeros };
    for switch in &mut switches {
        switch.send_multipart_part(first_part);
    }
    test.expect_closed(1, "multipart_memory_limit");
    assert_eq!(test.metric("switches_connected", "1.3"), 5);
    drop(switches);
    wait_until("all switches to disconnect", || test.metric("switches_connected", "") == 0);
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_3, 9);
    switch.send_multipart_part(first_part);
    switch.expect_reply();
}
