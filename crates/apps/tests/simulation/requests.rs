//! Requests of a thread that is no worker, and its copy of the network view.

use std::sync::{Arc, Mutex};

use sluice_openflow::{Message, Multipart, MultipartRequest, SwitchFeatures};
use sluice_sdk::view::{NetworkView, SubscriptionEnd, ViewSubscription, ViewUpdate};
use sluice_sdk::{Answer, Request};

use super::*;

/// Requests in each round, at most.
const REQUESTS_MAX: u32 = 20;

/// Longer than a control link is paused, or shorter.
const TIMEOUT_MS: u32 = 12_000;

/// Requests to random switches, of which each must get one answer, and a copy of the view that must stay equal.
pub(super) struct Requests {
    rng: Rng,
    /// Of each request.
    answers: Vec<Arc<Mutex<Vec<Answer>>>>,
    subscription: Option<ViewSubscription>,
    view: NetworkView,
}

impl Requests {
    pub(super) fn new(seed: u64) -> Self {
        let rng = Rng::new(seed.wrapping_mul(31) ^ 0x7e57);
        Self { rng, answers: Vec::new(), subscription: None, view: NetworkView::default() }
    }

    /// Sends requests, and subscribes to the view unless that is done.
    pub(super) fn send(&mut self, net: &mut ChainSimulation) {
        if self.subscription.is_none() {
            self.subscription = Some(net.controller_mut().subscribe());
        }
        for _ in 0..self.rng.below(REQUESTS_MAX) {
            let switches = &net.data_plane().topology().switches;
            let to = switches.get(pick(&mut self.rng, switches.len() + 1));
            let to = to.map_or(DatapathId(0xdead), |switch| switch.datapath_id);
            let messages = random_messages(&mut self.rng);
            let timeout = Duration::from_millis(self.rng.below(TIMEOUT_MS).into());
            let answers = Arc::new(Mutex::new(Vec::new()));
            self.answers.push(answers.clone());
            let on_answer = Box::new(move |answer| answers.lock().unwrap().push(answer));
            net.controller_mut().request(to, Request { messages, timeout }, on_answer);
        }
        self.receive();
    }

    fn receive(&mut self) {
        while let Some(update) = self.subscription.as_ref().and_then(ViewSubscription::try_next) {
            match update {
                ViewUpdate::Facts(facts) => {
                    for fact in &*facts {
                        self.view.apply(fact);
                    }
                }
                ViewUpdate::InitialStateComplete => {}
                // The queue of the worker was full.
                ViewUpdate::Ended(why) => {
                    assert_eq!(why, SubscriptionEnd::Refused);
                    (self.subscription, self.view) = (None, NetworkView::default());
                }
            }
        }
    }

    /// Checks that every request has been answered once, with a reason, and that the copy is equal to the view of a worker.
    pub(super) fn check(&mut self, net: &ChainSimulation, faults: &Faults) -> Result<(), String> {
        let may_disconnect = faults.explain("closed_by_peer") || faults.explain("echo_timeout");
        for (number, answers) in self.answers.iter().enumerate() {
            let answers = answers.lock().unwrap();
            if answers.len() != 1 {
                return Err(format!("request {number} has the answers {answers:?}"));
            }
            if !may_disconnect && answers.contains(&Answer::Disconnected) {
                return Err(format!("request {number}: no switch has disconnected"));
            }
        }
        self.receive();
        if self.subscription.is_none() {
            return Ok(());
        }
        let view = net.controller().networks().next().unwrap().view();
        let is_same_host = |(id, host)| self.view.host(id) == Some(host);
        let is_equal = view.switches().eq(self.view.switches())
            && view.links().eq(self.view.links())
            && view.host_count() == self.view.host_count()
            && view.hosts().all(is_same_host);
        let count =
            |view: &NetworkView| (view.switch_count(), view.links().count(), view.host_count());
        let differ =
            || format!("a subscriber has {:?}, a worker {:?}", count(&self.view), count(view));
        is_equal.then_some(()).ok_or_else(differ)
    }
}

/// Messages that change nothing.
fn random_messages(rng: &mut Rng) -> Vec<Message> {
    let deletion = |n: u64| {
        let unused = Field::eth_dst(MacAddr::from_u64(0x027e_5700_0000 | n));
        Message::FlowMod(FlowMod { cookie: n, ..FlowMod::delete([unused]) })
    };
    match rng.below(6) {
        0 => vec![Message::MultipartRequest(Multipart::single(MultipartRequest::Desc))],
        1 => vec![Message::GetConfigRequest],
        2 => vec![Message::EchoRequest { data: vec![7; rng.below(100) as usize] }],
        // No switch accepts it.
        3 => vec![deletion(1), Message::FeaturesReply(SwitchFeatures::default()), deletion(2)],
        4 => (0..rng.below(5).into()).map(deletion).collect(),
        _ => vec![deletion(9)],
    }
}
