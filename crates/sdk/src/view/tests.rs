use sluice_openflow::PortNo;

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
        let link = Link { from: a, to: b };
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

/// Receives what there is; returns whether the subscription goes on, and whether the initial state is complete.
fn receive(subscription: &ViewSubscription, view: &mut NetworkView) -> (bool, bool) {
    let (mut is_open, mut is_complete) = (true, false);
    while let Some(update) = subscription.try_next() {
        match update {
            ViewUpdate::Facts(facts) => facts.iter().for_each(|fact| _ = view.apply(fact)),
            ViewUpdate::InitialStateComplete => is_complete = true,
            ViewUpdate::Ended(_) => is_open = false,
        }
    }
    (is_open, is_complete)
}

/// Of facts that arrive in random order, some before the subscription, some between the parts of the initial state, and some later.
#[test]
fn a_subscriber_has_the_same_view_whenever_it_subscribes() {
    let many = (0..3000u32).map(|n| {
        let id = HostId { mac: MacAddr::from_u64(n.into()), vlan: VlanId(7) };
        let host = Host { at: at(u64::from(n % 3), n % 4), addrs: vec![] };
        (id, (n % 3 != 0).then_some(host))
    });
    let mut facts = facts();
    let last = facts.last().unwrap().stamp.at();
    facts.extend(many.zip(1..).map(|((id, host), n)| {
        let stamp = Stamp::new(last + Duration::from_millis(n), 1);
        PublishedFact { stamp, fact: Fact::Host(id, host) }
    }));
    let state = |view: &NetworkView| {
        let facts =
            view.items().iter().filter_map(|item| view.fact_about(item)).collect::<Vec<_>>();
        let mut facts: Vec<_> = facts.iter().map(|fact| format!("{fact:?}")).collect();
        facts.sort();
        (facts, view.host_count(), view.switch_count())
    };
    let mut rng = sluice_base::Rng::new(3);
    for _ in 0..20 {
        for n in (1..facts.len()).rev() {
            facts.swap(n, rng.below(u32::try_from(n + 1).unwrap()) as usize);
        }
        let (mut view, mut copy) = (NetworkView::default(), NetworkView::default());
        let (mut publisher, subscription) = ViewPublisher::new(Box::new(|| {}));
        let mut rest = facts.as_slice();
        let mut apply = |count: u32, publisher: Option<&ViewPublisher>, view: &mut NetworkView| {
            let (some, later) = rest.split_at(rest.len().min(count as usize));
            rest = later;
            for fact in some {
                view.apply(fact);
            }
            publisher.inspect(|publisher| publisher.publish(&some.into()));
        };
        apply(rng.below(3000), None, &mut view);
        let mut is_complete = false;
        while !is_complete {
            publisher.send_initial_state(&view);
            apply(rng.below(100), Some(&publisher), &mut view);
            is_complete = receive(&subscription, &mut copy).1;
        }
        apply(u32::MAX, Some(&publisher), &mut view);
        assert_eq!(receive(&subscription, &mut copy), (true, false));
        assert_eq!(state(&copy), state(&view));
        drop(publisher);
        assert_eq!(subscription.try_next(), Some(ViewUpdate::Ended(SubscriptionEnd::Stopped)));
    }
}

#[test]
fn the_pause_before_a_subscription_doubles_while_subscriptions_end_soon() {
    let mut pause = ResubscriptionPause::default();
    let soon = Duration::from_secs(2);
    let mut after = |end, lasted| pause.after(end, lasted).as_millis();
    let pauses: Vec<_> = (0..8).map(|_| after(SubscriptionEnd::Lagged, soon)).collect();
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    assert_eq!(after(SubscriptionEnd::Lagged, Duration::from_secs(31)), 500);
    assert_eq!(after(SubscriptionEnd::Lagged, soon), 1000);
    assert_eq!(after(SubscriptionEnd::Refused, soon), 500, "no view was sent");
    assert_eq!(after(SubscriptionEnd::Lagged, soon), 2000);
}

#[test]
fn a_subscriber_that_does_not_keep_up_is_told_so_and_costs_no_more_memory() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = calls.clone();
    let notify = move || _ = counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let (publisher, subscription) = ViewPublisher::new(Box::new(notify));
    let facts: std::sync::Arc<[_]> = facts().into();
    while publisher.is_open() {
        publisher.publish(&facts);
    }
    publisher.publish(&facts);
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1, "nothing was received");
    assert_eq!(subscription.try_next(), Some(ViewUpdate::Ended(SubscriptionEnd::Lagged)));
    assert_eq!(subscription.try_next(), None);
    let (publisher, subscription) = ViewPublisher::new(Box::new(|| {}));
    drop(subscription);
    assert!(!publisher.is_open());
}

#[test]
fn a_switch_may_send_only_into_links_that_are_known_in_both_directions() {
    let mut view = NetworkView::default();
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let stamp = Stamp::new(Instant::now(), 1);
    let (a, b) = (at(1, 1), at(2, 1));
    let mut link = |from, to| {
        let link = Link { from, to };
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

#[test]
fn links_to_some_switches_are_those_that_both_ends_know() {
    let mut network = crate::Network::new(0);
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let now = Instant::now();
    let mut learn = |from, to| {
        network.publish(now, Fact::Link(to, Some(Link { from, to })));
        let view = network.view();
        let switches =
            |id| view.links_of(DatapathId(id)).map(|link| link.to.switch.0).collect::<Vec<_>>();
        let only_third = view.links_to_some(DatapathId(1), |id| id == DatapathId(3));
        (switches(1), switches(2), only_third.map(|link| link.to.switch.0).collect::<Vec<_>>())
    };
    learn(at(1, 1), at(2, 1));
    assert_eq!(learn(at(2, 1), at(1, 1)), (vec![2], vec![1], vec![]));
    learn(at(1, 2), at(3, 1));
    assert_eq!(learn(at(3, 1), at(1, 2)), (vec![2, 3], vec![1], vec![3]));
    // The cable was moved from switch 2 to switch 4, which has received the first probe.
    assert_eq!(learn(at(1, 1), at(4, 1)), (vec![3], vec![], vec![3]));
}

#[test]
fn the_version_of_a_switch_changes_with_the_switch_and_its_ports_only() {
    let mut network = crate::Network::new(0);
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let now = Instant::now();
    let (here, other) = (at(1, 1), at(2, 1));
    let info = SwitchInfo { ports: [(here.port, port(PortRole::Pending))].into() };
    assert_eq!(network.view().switch_version(here.switch), 0);
    let mut versions = BTreeSet::from([0]);
    let mut is_new = |network: &mut crate::Network, fact| {
        let before = network.view().switch_version(here.switch);
        network.publish(now, fact);
        let after = network.view().switch_version(here.switch);
        assert!(after == before || versions.insert(after), "{after} was there before");
        after != before
    };
    let switch = |at: SwitchPort| Fact::Switch(at.switch, Some(info.clone()));
    let edge = |at: SwitchPort| Fact::Port(at, Some(port(PortRole::Edge)));
    for (fact, is_change) in [
        (switch(here), true),
        (switch(other), false),
        (edge(here), true),
        (edge(here), false),
        (edge(other), false),
        (Fact::Link(here, Some(Link { from: other, to: here })), false),
        (Fact::Switch(here.switch, None), true),
        (switch(here), true),
    ] {
        assert_eq!(is_new(&mut network, fact.clone()), is_change, "{fact:?}");
    }
}

#[test]
fn facts_about_the_ports_of_a_connected_switch_are_kept_for_a_minute_only() {
    let mut view = NetworkView::default();
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let ports: BTreeMap<_, _> = (0..9).map(|no| (PortNo(no), port(PortRole::Pending))).collect();
    let switch = Fact::Switch(DatapathId(1), Some(SwitchInfo { ports }));
    view.apply(&PublishedFact { stamp: Stamp::new(start, 1), fact: switch });
    let stamp = Stamp::new(start + Duration::from_secs(1), 1);
    for no in 0..9 {
        let fact = Fact::Port(at(1, no), Some(port(PortRole::Edge)));
        view.apply(&PublishedFact { stamp, fact });
    }
    view.expire(stamp.at() + REMOVED_KEPT);
    assert_eq!(view.ports.len(), 9);
    view.expire(stamp.at() + REMOVED_KEPT * 2);
    assert_eq!(view.ports.len(), 0);
    assert!((0..9).all(|no| view.port_role(at(1, no)) == PortRole::Edge));
}

/// What a view says, in an order that does not depend on how it came to know it.
#[derive(Debug, PartialEq)]
struct Snapshot {
    switches: Vec<(DatapathId, SwitchInfo)>,
    links: Vec<Link>,
    /// The link from each port.
    links_from: Vec<Option<Link>>,
    links_of: Vec<Link>,
    hosts: Vec<(HostId, Host)>,
    hosts_of: Vec<HostId>,
    owners: Vec<Option<HostId>>,
    port_addrs: Vec<bool>,
    records: Vec<(u64, Tag)>,
}

#[derive(Debug, Clone, PartialEq)]
struct Tag(u32);

impl AppRecord for Tag {
    type Key = u64;
}

fn addr(n: u32) -> IpAddr {
    IpAddr::from([10, 0, 0, u8::try_from(n).unwrap()])
}

fn mac(n: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, u8::try_from(n).unwrap()])
}

impl Snapshot {
    fn of(view: &NetworkView) -> Self {
        let mut hosts: Vec<_> = view.hosts().map(|(id, host)| (id, host.clone())).collect();
        hosts.sort_by_key(|&(id, _)| id);
        let ports = (0..3).flat_map(|switch| (0..4).map(move |no| at(switch, no)));
        let owner = |n| view.host_by_addr(addr(n), VlanId(0)).map(|(id, _)| id);
        let ids = || (0..3).map(DatapathId);
        assert_eq!(
            (hosts.len(), view.switches().count()),
            (view.host_count(), view.switch_count())
        );
        Self {
            switches: view.switches().map(|(id, switch)| (id, switch.clone())).collect(),
            links: view.links().copied().collect(),
            links_from: ports.map(|at| view.link_from(at).copied()).collect(),
            links_of: ids().flat_map(|id| view.links_of(id)).copied().collect(),
            hosts_of: ids().flat_map(|id| view.hosts_of(id)).map(|(id, _)| id).collect(),
            hosts,
            owners: (0..3).map(owner).collect(),
            port_addrs: (0..8).map(|n| view.is_port_addr(mac(n))).collect(),
            records: view.records::<Tag>().map(|(key, tag)| (key, tag.clone())).collect(),
        }
    }
}

/// A fact about one of a few things, with one of a few values, so that values are repeated and come back.
fn random_fact(rng: &mut sluice_base::Rng) -> Fact {
    let mut below = |n| rng.below(n);
    let is_there = below(3) > 0;
    let (from, to) = (at(below(3).into(), below(4)), at(below(3).into(), below(4)));
    let port = PortInfo {
        hw_addr: mac(below(8)),
        ..port(if below(2) == 0 { PortRole::Edge } else { PortRole::Link })
    };
    match below(6) {
        0 => {
            let ports = (0..below(5)).map(|no| (PortNo(no), port.clone())).collect();
            Fact::Switch(to.switch, is_there.then_some(SwitchInfo { ports }))
        }
        1 | 2 => Fact::Port(to, is_there.then_some(port)),
        3 => {
            let link = Link { from, to };
            Fact::Link(to, is_there.then_some(link))
        }
        4 => {
            let id = HostId { mac: mac(below(4)), vlan: VlanId(0) };
            let addrs = (0..below(3)).map(addr).collect();
            Fact::Host(id, is_there.then_some(Host { at: to, addrs }))
        }
        _ => {
            let (key, tag) = (below(3).into(), Tag(below(2)));
            Fact::Record(RecordFact::new(key, is_there.then_some(tag)))
        }
    }
}

/// Three workers publish at random; what one sends to another arrives in order, but at any time. Their iterations begin at
/// different times, so one may know a fact before its time.
#[test]
fn views_of_three_workers_become_equal() {
    const WORKERS: usize = 3;
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    for seed in 0..500 {
        let mut rng = sluice_base::Rng::new(seed);
        let mut workers = [0, 1, 2].map(crate::Network::new);
        let mut queues: [[std::collections::VecDeque<PublishedFact>; WORKERS]; WORKERS] =
            Default::default();
        let is_empty = |queues: &[[std::collections::VecDeque<_>; WORKERS]; WORKERS]| {
            queues.iter().flatten().all(std::collections::VecDeque::is_empty)
        };
        let mut step = 0;
        while step < 200 || !is_empty(&queues) {
            step += 1;
            let [from, to] = [0; 2].map(|_| rng.below(3) as usize);
            if step <= 200 && rng.below(2) == 0 {
                let now = start + Duration::from_micros(step * 500 + u64::from(rng.below(4000)));
                workers[from].publish(now, random_fact(&mut rng));
                for fact in workers[from].take_facts() {
                    for queue in &mut queues[from] {
                        queue.push_back(fact.clone());
                    }
                }
                queues[from][from].clear();
            } else if let Some(fact) = queues[from][to].pop_front() {
                workers[to].apply_remote(&fact);
            }
        }
        let [first, second, third] = workers.map(|network| Snapshot::of(network.view()));
        assert_eq!(first, second, "seed {seed}");
        assert_eq!(first, third, "seed {seed}");
    }
}
