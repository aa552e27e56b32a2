//! Policies that are replaced while switches refuse, disconnect and lose answers: the service with model switches.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_base::Rng;
use sluice_io::clock;
use sluice_openflow::{
    Action, DatapathId, FlowDesc, Instruction, MacAddr, Match, Oxm, SwitchFeatures, Version,
};
use sluice_sdk::view::{NetworkView, ViewPublisher, ViewSubscription};
use sluice_sdk::{Answer, Controller, OnAnswer, Request, SessionStatistics, SwitchSession};

use super::model_switch::ModelSwitch;
use crate::policy::tests::{SWITCHES, random_flows, topology};
use crate::reconcile::Timing;
use crate::service::lock;
use crate::{Config, DEFAULT_TAGS, Declared, PolicyError, QuarantineInfo, Reserved, WriteError};

/// Four switches in a ring.
#[derive(Default)]
struct Network(Mutex<State>);

#[derive(Default)]
struct State {
    switches: BTreeMap<DatapathId, ModelSwitch>,
    sessions: BTreeMap<DatapathId, SwitchSession>,
    publishers: Vec<ViewPublisher>,
    faults: Option<Rng>,
    /// Tags that packets were given while a switch did not know them.
    violations: Vec<String>,
}

impl Controller for Network {
    fn request(&self, to: DatapathId, request: Request, on_answer: OnAnswer) {
        let answer = {
            let mut state = lock(&self.0);
            let fault = state.faults.as_mut().map_or(u32::MAX, |rng| rng.below(40));
            let is_connected = state.sessions.contains_key(&to);
            let answer = match state.switches.get_mut(&to).filter(|_| is_connected) {
                // The request is lost, or its answer.
                Some(_) if fault == 0 => Answer::TimedOut,
                Some(switch) => switch.on_request(&request.messages),
                None => Answer::NotConnected,
            };
            state.check();
            if fault == 1 { Answer::TimedOut } else { answer }
        };
        on_answer(answer);
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        let (mut publisher, subscription) = ViewPublisher::new(notify);
        publisher.send_initial_state(&NetworkView::default());
        lock(&self.0).publishers.push(publisher);
        subscription
    }

    fn switches(&self) -> Vec<SwitchSession> {
        lock(&self.0).sessions.values().cloned().collect()
    }
}

impl State {
    fn connect(&mut self, id: DatapathId) {
        let session = SwitchSession {
            datapath_id: id,
            version: Version::V1_4,
            addr: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            worker: 0,
            connected_at: clock::since_epoch(),
            features: Arc::new(SwitchFeatures { datapath_id: id, ..SwitchFeatures::default() }),
            role: None,
            description: None,
            statistics: SessionStatistics::default(),
            last_errors: vec![],
        };
        self.sessions.insert(id, session);
    }

    /// While an entry gives packets a tag, all switches have the entries for that tag: each version concerns all of them.
    fn check(&mut self) {
        let mut violations = vec![];
        for (id, switch) in &self.switches {
            for tag in switch.tables.flows.iter().filter_map(given_tag) {
                let knows = |it: &ModelSwitch| it.tables.flows.iter().any(|it| is_miss(it, tag));
                let ignorant = self.switches.iter().filter(|(_, it)| !knows(it));
                violations.extend(
                    ignorant.map(|(at, _)| format!("{id} gives tag {tag}, unknown at {at}")),
                );
            }
        }
        self.violations.extend(violations);
    }
}

/// The VLAN id that packets have which an entry matches, if that is one.
fn matched_tag(matching: &Match) -> Option<u16> {
    matching.vlan().map(|vlan| vlan.0).filter(|vlan| *vlan != 0)
}

fn is_miss(flow: &FlowDesc, tag: u16) -> bool {
    flow.table_id == 0 && flow.priority == 7 && matched_tag(&flow.matching) == Some(tag)
}

/// The tag that an ingress entry gives to packets.
fn given_tag(flow: &FlowDesc) -> Option<u16> {
    let is_ingress = matched_tag(&flow.matching).is_none();
    let actions = flow.instructions.iter().filter_map(|it| match it {
        Instruction::ApplyActions { actions } => Some(actions),
        _ => None,
    });
    let given = actions.flatten().find_map(|action| match action {
        Action::SetField { field: Oxm::Field(field) } => {
            matched_tag(&Match { fields: vec![Oxm::Field(*field)] })
        }
        _ => None,
    });
    given.filter(|_| is_ingress)
}

/// The service, and its store.
struct Service {
    network: Arc<Network>,
    declared: Option<Declared>,
    dir: PathBuf,
}

impl Service {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("sluice-policies-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let network = Arc::new(Network::default());
        {
            let mut state = lock(&network.0);
            for id in (1..=SWITCHES).map(DatapathId) {
                state.switches.insert(id, ModelSwitch::new(Version::V1_4));
                state.connect(id);
            }
        }
        let mut new = Self { network, declared: None, dir };
        new.start();
        new
    }

    fn start(&mut self) {
        let timing = Timing {
            verify_interval: Duration::from_millis(300),
            drain_time: Duration::from_millis(30),
            ..Timing::default()
        };
        let (state_dir, reserved) = (self.dir.clone(), Reserved::default());
        let config = Config { state_dir, reserved, timing, policy_tags: DEFAULT_TAGS };
        self.declared = Some(Declared::start(&config, self.network.clone()).unwrap());
    }

    fn restart(&mut self) {
        self.declared = None;
        self.start();
    }

    fn declared(&self) -> &Declared {
        self.declared.as_ref().unwrap()
    }

    fn state<R>(&self, with: impl FnOnce(&mut State) -> R) -> R {
        with(&mut lock(&self.network.0))
    }

    fn apply(&self, rng: &mut Rng) -> Result<(), WriteError> {
        let by = "local".to_owned();
        let applied = self.declared().apply_policy("p", random_flows(rng), by, &topology);
        applied.map(|_| ())
    }

    /// Waits until the switches have one version and nothing else.
    fn settle(&self) {
        for _ in 0..2000 {
            let policy = self.declared().policy("p").filter(|it| it.retired.is_empty());
            let expected = policy.and_then(|policy| policy.current.clone());
            let count = |id| {
                let entries = expected.as_ref().and_then(|it| it.entries.get(&id));
                entries.map_or(0, |it| it.ingress.len() + it.transit.len())
            };
            let is_settled = self.state(|state| {
                state.switches.iter().all(|(id, it)| it.tables.flows.len() == count(*id))
            });
            if is_settled && expected.is_some() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        panic!("not settled: {:?}", self.declared().policy("p"));
    }

    fn assert_no_violation(&self) {
        self.state(|state| assert!(state.violations.is_empty(), "{:#?}", state.violations));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.declared = None;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn whatever_switches_do_a_tag_is_known_where_packets_with_it_arrive() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let mut service = Service::new(&format!("faults-{seed}"));
        let (mut made, mut refused) = (0, 0);
        for step in 0..12 {
            service.state(|state| {
                state.faults = (step % 3 != 0).then(|| Rng::new(seed * 100 + step));
                let id = DatapathId(u64::from(rng.below(4)) + 1);
                match rng.below(6) {
                    0 => drop(state.sessions.remove(&id)),
                    1 => state.switches.get_mut(&id).unwrap().tables.flows_max = 10,
                    2 => state.connect(id),
                    _ => {}
                }
            });
            match service.apply(&mut rng) {
                Ok(()) => made += 1,
                Err(_) => refused += 1,
            }
            if rng.below(5) == 0 {
                service.restart();
            }
            service.state(|state| {
                for id in (1..=SWITCHES).map(DatapathId) {
                    state.switches.get_mut(&id).unwrap().tables.flows_max = 1000;
                    if !state.sessions.contains_key(&id) {
                        state.connect(id);
                    }
                }
            });
            service.assert_no_violation();
        }
        service.state(|state| state.faults = None);
        while service.apply(&mut rng).is_err() {}
        service.settle();
        service.assert_no_violation();
        assert!(made + refused == 12, "{made} {refused}");
    }
}

/// What shares a number is installed together or not at all.
#[test]
fn entries_of_a_policy_share_the_number_of_no_other_change() {
    let (service, mut rng) = (Service::new("numbers"), Rng::new(3));
    let host = |n| MacAddr([2, 0, 0, 0, 0, n]);
    let quarantine = |n| {
        let info = QuarantineInfo::new("local".to_owned(), None, clock::since_epoch());
        service.declared().quarantine(host(n), info).unwrap();
        let entry = service.declared().quarantines().get(&host(n)).unwrap().entries[0].clone();
        entry.revision
    };
    // The topology is asked for after the number was taken, and before anything is changed.
    let between = Mutex::new(vec![]);
    let topology = || {
        let n = u8::try_from(lock(&between).len()).unwrap();
        let revision = quarantine(n);
        lock(&between).push(revision);
        topology()
    };
    let flows = random_flows(&mut rng);
    let plan = service.declared().apply_policy("p", flows, "local".to_owned(), &topology).unwrap();
    let of_policy = plan.version.transit().next().unwrap().revision;
    assert_eq!(lock(&between).len(), 2);
    assert!(!lock(&between).contains(&of_policy), "{of_policy}: {between:?}");
}

#[test]
fn a_switch_that_is_away_keeps_its_version_and_the_others_keep_its_tag() {
    let (service, mut rng) = (Service::new("away"), Rng::new(7));
    service.apply(&mut rng).unwrap();
    service.settle();
    let first = service.declared().policy("p").unwrap().current.clone().unwrap();
    service.state(|state| drop(state.sessions.remove(&DatapathId(2))));
    let error = service.apply(&mut rng).unwrap_err();
    assert_eq!(error, WriteError::Policy(PolicyError::NotConnected("0000000000000002".to_owned())));
    service.state(|state| state.connect(DatapathId(2)));
    while service.apply(&mut rng).is_err() {}
    service.settle();
    let second = service.declared().policy("p").unwrap().current.clone().unwrap();
    assert_ne!(first.tag, second.tag);
    service.declared().remove_policy("p", false).unwrap();
    for _ in 0..2000 {
        let is_empty =
            service.state(|state| state.switches.values().all(|it| it.tables.flows.is_empty()));
        if is_empty && service.declared().policies().is_empty() {
            return service.assert_no_violation();
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("not removed");
}
