//! Switches that connect, disconnect and change their worker.

use crate::multicast::frames::join;
use crate::multicast::test_network::at;
use crate::multicast::{GROUP, join_group, receivers, started, strict};

#[test]
fn members_survive_a_change_of_the_worker() {
    let (mut net, sender) = (started(&strict()), at(1, 1));
    join_group(&mut net, at(2, 3), GROUP);
    net.disconnect(2);
    net.connect_to(2, 1);
    let all: Vec<_> = (1..=4).map(|port| at(2, port)).collect();
    assert_eq!(receivers(&mut net, sender, GROUP), all, "some may have joined meanwhile");
    net.wait_s(14);
    assert_eq!(receivers(&mut net, sender, GROUP), [at(2, 3)]);
    net.wait_s(240);
    assert_eq!(receivers(&mut net, sender, GROUP), [at(2, 3)]);
    net.wait_s(10);
    assert_eq!(receivers(&mut net, sender, GROUP), [], "the new worker expires them");
}

#[test]
fn groups_of_a_switch_that_does_not_come_back_are_forgotten() {
    let (mut net, sender) = (started(&strict()), at(1, 1));
    join_group(&mut net, at(2, 3), GROUP);
    join_group(&mut net, at(1, 2), GROUP);
    net.disconnect(2);
    assert_eq!(receivers(&mut net, sender, GROUP), [at(1, 2)]);
    for _ in 0..3 {
        net.wait_s(100);
        net.send(at(1, 2), &join(at(1, 2), GROUP, 0));
    }
    net.connect(2);
    net.wait_s(14);
    assert_eq!(receivers(&mut net, sender, GROUP), [at(1, 2)]);
}
