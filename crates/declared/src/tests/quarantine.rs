//! Hosts in quarantine: their entries at switches of each version, and what is refused.

use std::time::Duration;

use sluice_openflow::{DatapathId, MacAddr, Version};
use sluice_sdk::flow_space::QUARANTINE;

use super::S1;
use super::bench::{Bench, flow};
use crate::quarantine::{QUARANTINES_MAX, QuarantineError, QuarantineInfo};
use crate::{ChangeError, Key, Kind, State, change};

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

const VERSIONS: [Version; 4] = [Version::V1_0, Version::V1_3, Version::V1_4, Version::V1_5];

/// The matches of the entries of quarantined hosts at a switch; all of them drop.
fn dropped(bench: &Bench, at: DatapathId) -> Vec<String> {
    let flows = &bench.switch(at).tables.flows;
    let of_hosts = flows.iter().filter(|flow| QUARANTINE.has_cookie(flow.cookie));
    let mut matches: Vec<_> = of_hosts
        .map(|flow| {
            assert!(flow.instructions.is_empty(), "{flow:?}");
            assert_eq!((flow.table_id, flow.priority), (0, 65_532));
            flow.matching.to_string()
        })
        .collect();
    matches.sort();
    matches
}

const BOTH: [&str; 2] = ["dl_dst=02:00:00:00:00:07", "dl_src=02:00:00:00:00:07"];

#[test]
fn a_quarantined_host_is_cut_off_at_every_switch_until_it_is_released() {
    for version in VERSIONS {
        let mut bench = Bench::new();
        bench.connect(S1, version);
        bench.set([flow("a", "all", "priority=200,in_port=1,actions=output:2")]);
        bench.quarantine(HOST).unwrap();
        bench.settle();
        assert_eq!(dropped(&bench, S1), BOTH, "{version}");
        assert_eq!(bench.quarantine_states(HOST), [(S1, State::Installed)]);
        // A switch that connects later, a file that is applied, a restart, and somebody who deletes everything.
        let later = DatapathId(2);
        bench.connect(later, version);
        bench.remove_all();
        bench.settle();
        assert_eq!([dropped(&bench, S1), dropped(&bench, later)], [BOTH; 2], "{version}");
        bench.restart();
        bench.connect(S1, version);
        bench.switch_mut(S1).tables.flows.clear();
        bench.settle();
        bench.wait(Duration::from_secs(12));
        assert_eq!(dropped(&bench, S1), BOTH, "{version}");
        bench.disconnect(later);
        bench.release(HOST).unwrap();
        bench.connect(later, version);
        bench.wait(Duration::from_secs(12));
        let none: [String; 0] = [];
        assert_eq!([dropped(&bench, S1), dropped(&bench, later)], [none.clone(), none]);
    }
}

#[test]
fn a_switch_that_refuses_a_quarantine_is_named_and_tried_again() {
    let mut bench = Bench::new();
    bench.connect(S1, Version::V1_3);
    bench.connect(DatapathId(2), Version::V1_0);
    bench.limit(S1, 1);
    bench.quarantine(HOST).unwrap();
    bench.settle();
    let states = bench.quarantine_states(HOST);
    assert!(matches!(&states[0].1, State::Refused(why) if why.contains("FULL")), "{states:?}");
    assert_eq!(states[1].1, State::Installed);
    bench.limit(S1, 2);
    bench.wait(Duration::from_secs(5));
    assert_eq!(bench.quarantine_states(HOST)[0].1, State::Installed);
}

#[test]
fn what_cannot_be_quarantined_or_released_is_refused() {
    let mut bench = Bench::new();
    let group = MacAddr([1, 0, 0x5e, 0, 0, 1]);
    for mac in [group, MacAddr::BROADCAST, MacAddr::default()] {
        assert_eq!(bench.quarantine(mac), Err(QuarantineError::NoHostAddress(mac)));
    }
    assert_eq!(bench.release(HOST), Err(QuarantineError::NotQuarantined(HOST)));
    bench.quarantine(HOST).unwrap();
    assert_eq!(bench.quarantine(HOST), Err(QuarantineError::Already(HOST)));
    for n in 1..QUARANTINES_MAX {
        bench.quarantine(MacAddr::from_u64(0x0200_0001_0000 + n as u64)).unwrap();
    }
    let more = MacAddr([2, 9, 9, 9, 9, 9]);
    assert_eq!(bench.quarantine(more), Err(QuarantineError::TooMany));
    let with = |reason: String| {
        let info = QuarantineInfo::new("local".to_owned(), Some(reason), Duration::ZERO);
        change::quarantine(HOST, info, &std::collections::BTreeMap::new(), 1).map(|_| ())
    };
    assert_eq!(with("x".repeat(256)), Ok(()));
    assert_eq!(with("x".repeat(257)), Err(QuarantineError::InvalidReason));
    assert_eq!(with("a\nb".to_owned()), Err(QuarantineError::InvalidReason));
}

/// The entries of hosts are no static entries: an operator can neither remove them nor declare others like them.
#[test]
fn entries_of_quarantined_hosts_cannot_be_declared_or_removed() {
    let mut bench = Bench::new();
    bench.quarantine(HOST).unwrap();
    let key = Key { kind: Kind::Flow, name: format!("quarantine:{HOST}:from") };
    let removal = bench.check(change::Change { remove: vec![key.clone()], ..Default::default() });
    assert_eq!(removal, Err(ChangeError::NotFound(key.clone())));
    for (name, text, error) in [
        (key.name.as_str(), "in_port=1,actions=drop", "invalid name"),
        ("a", "priority=65532,actions=output:1", "priority 65532 belongs to an application"),
    ] {
        let set = vec![flow(name, "all", text)];
        let refused = bench.check(change::Change { set, ..Default::default() }).unwrap_err();
        assert!(refused.to_string().contains(error), "{refused}");
    }
}
