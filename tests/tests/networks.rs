//! Hosts on Open vSwitch reach each other, and the rules they leave are what was meant.

use sluice_system_tests::{
    Controller, Flow, Lab, OpenFlow, SOON, both_versions, every_version, wait_until,
};

every_version! {
    a_rule_leads_one_host_to_another_until_it_is_idle() = rules;
}

both_versions! {
    hosts_ping_each_other_through_one_switch(1) = ping_through;
    hosts_ping_each_other_through_three_switches(3) = ping_through;
    hosts_ping_each_other_through_eight_switches(8) = ping_through;
    the_hub_connects_hosts_and_installs_no_rule_for_them() = hub;
    an_idle_rule_is_removed_and_learnt_again() = idle;
}

fn ping_through(version: OpenFlow, switches: u16) {
    let lab = Lab::line(version, switches);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2) = (lab.host("s1"), lab.host(&format!("s{switches}")));
    lab.connect(&controller);
    h1.must_reach(&h2);
    h2.must_reach(&h1);
}

fn hub(version: OpenFlow) {
    let lab = Lab::line(version, 3);
    let controller = Controller::new(lab.room(), "--app hub");
    let (h1, h2) = (lab.host("s1"), lab.host("s3"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    for flow in lab.flows("s2") {
        assert_eq!((flow.value("dl_src"), flow.value("dl_dst")), (None, None), "{flow}");
    }
}

fn rules(version: OpenFlow) {
    let lab = Lab::line(version, 1);
    let controller = Controller::new(lab.room(), "--app learning");
    let (h1, h2) = (lab.host("s1"), lab.host("s1"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    let (misses, rules): (Vec<_>, Vec<_>) =
        lab.flows("s1").into_iter().partition(Flow::is_table_miss);
    // Up to 1.2 a switch asks of its own accord; since 1.3 it must be told to. §5.4.
    assert_eq!(misses.len(), usize::from(version >= OpenFlow::V13));
    for (from, to) in [(&h1, &h2), (&h2, &h1)] {
        lab.must_lead_to("s1", to);
        let of = |rule: &&Flow| rule.value("dl_src") == Some(&from.mac());
        let rule = rules.iter().find(of).map(ToString::to_string).unwrap_or_default();
        let (port, src, dst) = (from.port(), from.mac(), to.mac());
        for part in [
            "idle_timeout=60",
            "priority=100",
            &format!("in_port={port},vlan_tci=0x0000"),
            &format!("dl_src={src},dl_dst={dst} actions={}", to.output()),
        ] {
            assert!(rule.contains(part), "no {part:?} in {rule:?}");
        }
    }
    assert_eq!(rules.len(), 2, "{rules:#?}");
}

fn idle(version: OpenFlow) {
    let lab = Lab::line(version, 1);
    let config = lab.room().write("sluice.toml", "[learning]\nidle_timeout_s = 1\n");
    let controller =
        Controller::new(lab.room(), &format!("--app learning --config {}", config.display()));
    let (h1, h2) = (lab.host("s1"), lab.host("s1"));
    lab.connect(&controller);
    for _ in 0..2 {
        h1.must_reach(&h2);
        for rule in lab.flows_to("s1", &h2) {
            assert_eq!(rule.value("idle_timeout"), Some("1"), "{rule}");
        }
        lab.must_lead_to("s1", &h2);
        wait_until(SOON, "the rule to go", || lab.flows_to("s1", &h2).is_empty());
    }
}
