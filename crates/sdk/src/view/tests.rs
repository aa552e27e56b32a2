use super::*;

fn port(role: PortRole) -> PortInfo {
    PortInfo { name: "p".into(), hw_addr: MacAddr([2; 6]), is_up: true, role }
}

fn at(switch: u64, port: u32) -> SwitchPort {
    SwitchPort::new(DatapathId(switch), PortNo(port))
}

/// Facts about three switches, their ports, links and hosts, several about each of them.
fn facts() -> Vec<PublishedFact> {
    let mut facts = Vec::new();
    for n in 0..3u64 {
        let ports = (1..4).map(|no| (PortNo(no), port(PortRole::Pending))).collect();
        facts.push(Fact::Switch(DatapathId(n), Some(SwitchInfo { ports })));
    }
    for n in 0..30u32 {
        let (a, b) = (at(u64::from(n % 3), n % 4), at(u64::from(n % 2), n % 3));
        let link = Link { from: a, to: b, delay: Duration::from_micros(n.into()) };
        facts.push(Fact::Link(b, (n % 5 != 0).then_some(link)));
        facts.push(Fact::Port(a, (n % 7 != 0).then(|| port(PortRole::Edge))));
        let id =
            HostId { mac: MacAddr([2, 0, 0, 0, 0, u8::try_from(n % 4).unwrap()]), vlan: VlanId(0) };
        let addrs = vec![IpAddr::from([10, 0, 0, u8::try_from(n % 5).unwrap()])];
        facts.push(Fact::Host(id, (n % 6 != 0).then_some(Host { at: a, addrs })));
    }
    // The same facts once more: a value may come back, and the one in between may arrive last.
    facts.extend_from_within(3..33);
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let stamp = |n: usize| Stamp::new(start + Duration::from_millis(n as u64), 1);
    facts.into_iter().enumerate().map(|(n, fact)| PublishedFact { stamp: stamp(n), fact }).collect()
}

#[test]
fn views_become_equal_in_whichever_order_facts_arrive() {
    let facts = facts();
    let view = |order: &[usize]| {
        let mut view = NetworkView::default();
        for &n in order {
            view.apply(&facts[n]);
        }
        let mut hosts: Vec<_> = view.hosts().map(|(id, host)| (id, host.clone())).collect();
        hosts.sort_by_key(|&(id, _)| id);
        let links: Vec<_> = view.links().copied().collect();
        let at_switch: Vec<_> = view.hosts_of(DatapathId(1)).map(|(id, _)| id).collect();
        assert!(at_switch.iter().all(|&id| view.host(id).is_some_and(|h| h.at.switch.0 == 1)));
        let addrs = (0..5).map(|n| IpAddr::from([10, 0, 0, n]));
        let owners: Vec<_> =
            addrs.map(|addr| view.host_by_addr(addr, VlanId(0)).map(|(id, _)| id)).collect();
        (links, hosts, view.host_count(), at_switch, owners)
    };
    let in_order: Vec<_> = (0..facts.len()).collect();
    let expected = view(&in_order);
    assert_eq!(expected.1.len(), expected.2);
    let mut rng = sluice_base::Rng::new(7);
    for _ in 0..200 {
        let mut order = in_order.clone();
        for n in (4..order.len()).rev() {
            // Switches come first: a fact about a port of an unknown switch is ignored.
            order.swap(n, 3 + rng.below(u32::try_from(n - 2).unwrap()) as usize);
        }
        assert_eq!(view(&order), expected);
    }
}

#[test]
fn a_switch_may_send_only_into_links_that_are_known_in_both_directions() {
    let mut view = NetworkView::default();
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let stamp = Stamp::new(Instant::now(), 1);
    let (a, b) = (at(1, 1), at(2, 1));
    let mut link = |from, to| {
        let link = Link { from, to, delay: Duration::ZERO };
        view.apply(&PublishedFact { stamp, fact: Fact::Link(to, Some(link)) });
        view.links_of(a.switch).count()
    };
    assert_eq!(link(a, b), 0);
    assert_eq!(link(b, a), 1);
    assert_eq!(view.link_from(a).map(|link| link.to), Some(b));
}

#[test]
fn removed_things_are_forgotten_after_a_while() {
    let mut view = NetworkView::default();
    for published in facts() {
        view.apply(&published);
        let removal = match published.fact {
            Fact::Switch(id, _) => Fact::Switch(id, None),
            Fact::Port(at, _) => Fact::Port(at, None),
            Fact::Link(to, _) => Fact::Link(to, None),
            Fact::Host(id, _) => Fact::Host(id, None),
            Fact::Record(_) | Fact::Event(_) => continue,
        };
        view.apply(&PublishedFact { stamp: published.stamp, fact: removal });
    }
    let late = facts().last().map(|published| published.stamp.at() + REMOVED_KEPT * 2).unwrap();
    view.expire(late);
    let left = [view.switches.len(), view.links.len(), view.hosts.len(), view.ports.len()];
    assert_eq!(left, [0; 4]);
    assert!(view.hosts_by_addr.is_empty() && view.links_from.is_empty());
    assert!(view.hosts_by_port.is_empty() && view.port_addrs.is_empty());
}
