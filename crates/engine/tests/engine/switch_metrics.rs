//! Metrics of each switch.

use std::time::Duration;

use sluice_openflow::{ErrorMsg, ErrorReason, Message, Version};

use crate::slow_switches::{FloodingSwitch, small_limits};
use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, broadcast, bytes};

const FIRST: &str = "0000000000000001";
const SECOND: &str = "0000000000000002";

/// Every metric with the label `dpid`.
const METRICS: [&str; 10] = [
    "switch_info",
    "switch_connected_timestamp_seconds",
    "switch_backlog_bytes",
    "switch_messages_received",
    "switch_packet_ins_received",
    "switch_received_bytes",
    "switch_sent_bytes",
    "switch_errors_received",
    "switch_malformed_messages",
    "switch_packet_ins_shed",
];

#[test]
fn each_connected_switch_has_one_series_per_metric_until_it_disconnects() {
    for threads in [1, 2] {
        let test = TestEngine::new(|cfg| cfg.workers.threads = threads);
        for name in METRICS {
            assert!(test.label_values(name, "dpid").is_empty(), "{name}");
        }
        let mut second = TestPeer::connect_switch(test.addr, Version::V1_0, 2);
        let mut first = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
        first.expect_reply();
        second.expect_reply();
        for name in METRICS {
            assert_eq!(test.label_values(name, "dpid"), [FIRST, SECOND], "{name}");
        }
        assert_eq!(test.label_values("switch_info", "version"), ["1.3", "1.0"]);
        // Without the port, so that the series is the same after a new connection.
        assert_eq!(test.label_values("switch_info", "address"), ["127.0.0.1", "127.0.0.1"]);
        drop(first);
        wait_until("a switch to disconnect", || test.closed("") == 1);
        for name in METRICS {
            assert_eq!(test.label_values(name, "dpid"), [SECOND], "{name}");
        }
        // A new connection of the same switch starts at 0.
        let mut first = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
        first.expect_reply();
        assert_eq!(test.label_values("switch_info", "dpid"), [FIRST, SECOND]);
        wait_until("the packet-in to be counted", || {
            test.metric("switch_packet_ins_received", FIRST) == 1
        });
    }
}

#[test]
fn messages_are_counted_for_the_switch_that_sent_them() {
    let test = TestEngine::new(|_| {});
    let mut first = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    let mut second = TestPeer::connect_switch(test.addr, Version::V1_3, 2);
    first.expect_reply();
    second.expect_reply();
    let before = test.metric("switch_received_bytes", FIRST);
    let packet_in = bytes(Version::V1_3, &broadcast(None));
    let error = Message::Error(ErrorMsg { reason: ErrorReason::BAD_TYPE, data: vec![0; 8] });
    let error = bytes(Version::V1_3, &error);
    let malformed = [4, 10, 0, 8, 0, 0, 0, 9];
    let sent = [&packet_in[..], &error, &malformed, &packet_in].concat();
    first.send_bytes(&sent);
    wait_until("all bytes to be counted", || {
        test.metric("switch_received_bytes", FIRST) == before + sent.len() as u64
    });
    // The next reply shows that the read before has been processed.
    first.expect_reply();
    let counts = |dpid| {
        ["packet_ins_received", "errors_received", "malformed_messages", "packet_ins_shed"]
            .map(|name| test.metric(&format!("switch_{name}"), dpid))
    };
    wait_until("the last read to be counted", || counts(FIRST) == [4, 1, 1, 0]);
    assert_eq!(counts(SECOND), [1, 0, 0, 0]);
    assert!(test.metric("switch_sent_bytes", SECOND) > 0);
    assert_eq!(test.metric("switch_backlog_bytes", FIRST), 0);
    let total = test.metric("packet_ins_shed", "");
    assert_eq!(total, 0);
}

#[test]
fn a_backlog_is_counted_for_the_switch_that_does_not_read() {
    let test = TestEngine::new(|cfg| {
        small_limits(cfg);
        cfg.limits.stuck_timeout = Duration::from_secs(60);
    });
    let mut good = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    good.expect_reply();
    let mut slow = FloodingSwitch::new(&test);
    slow.flood_until_paused(&test);
    // The kernel may still take some of the backlog.
    wait_until("the backlog of the switch to be the total", || {
        let total = test.metric("backlog_bytes", "");
        total > 0 && test.metric("switch_backlog_bytes", FloodingSwitch::DPID) == total
    });
    assert_eq!(test.metric("switch_backlog_bytes", FIRST), 0);
    wait_until("an empty backlog", || {
        slow.read(usize::MAX);
        test.metric("backlog_bytes", "") == 0
    });
    wait_until("an empty backlog of the switch", || {
        test.metric("switch_backlog_bytes", FloodingSwitch::DPID) == 0
    });
}
