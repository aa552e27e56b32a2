//! An application and what a worker knows of the network, without an engine.

use std::sync::Arc;
use std::time::Instant;

use sluice_openflow::{DatapathId, Encoder, Message, Version};
use sluice_sdk::view::PublishedFact;
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

/// A worker of a test: an application, and its part of the network.
#[derive(Debug)]
pub struct AppWorker<A> {
    /// The application.
    pub app: A,
    /// What the worker knows of the network, and what the application publishes and sends.
    pub network: Network,
}

/// The switch about which an application is called.
#[derive(Debug)]
pub struct CalledSwitch<'a> {
    /// Its index in its worker.
    pub index: SwitchIndex,
    /// Its datapath id.
    pub id: DatapathId,
    /// The version of its session.
    pub version: Version,
    /// The transaction ID of the next message to it.
    pub next_xid: &'a mut u32,
    /// Whether it takes what is sent.
    pub has_room: bool,
}

/// What an application has sent to the switch about which it was called.
#[derive(Debug, Default)]
pub struct CallOutput {
    /// Messages that overtake others.
    pub urgent: Vec<u8>,
    /// All other messages.
    pub messages: Vec<u8>,
}

impl CallOutput {
    /// All messages, in the order in which the engine sends them.
    pub fn all(mut self) -> Vec<u8> {
        self.urgent.append(&mut self.messages);
        self.urgent
    }
}

/// What an application has sent and logged, besides facts.
#[derive(Debug, Default)]
pub struct AppOutput {
    /// Messages to any switch.
    pub messages: Vec<(DatapathId, Message)>,
    /// Lines for the log.
    pub log: Vec<String>,
}

impl<A: App> AppWorker<A> {
    /// The worker with this number. It knows no switches.
    pub fn new(number: usize, app: A) -> Self {
        Self { app, network: Network::new(number) }
    }

    /// Calls the application about a switch.
    pub fn call<T>(
        &mut self,
        switch: CalledSwitch<'_>,
        now: Instant,
        call: impl FnOnce(&mut A, &mut Ctx<'_>) -> T,
    ) -> (T, CallOutput) {
        let mut output = CallOutput::default();
        let CalledSwitch { index, id, version, next_xid, has_room } = switch;
        let encoder = Encoder::new(&mut output.messages, version, next_xid);
        let ctx = Ctx::new(now, index, id, encoder, &mut output.urgent, &mut self.network);
        let result = call(&mut self.app, &mut ctx.with_room(has_room));
        (result, output)
    }

    /// Ends the current iteration, and those that must follow at once. Returns the facts for the other workers.
    pub fn deliver(&mut self, now: Instant) -> Vec<Arc<[PublishedFact]>> {
        let mut published = Vec::new();
        while self.network.wants_iteration() {
            self.network.deliver(&mut self.app, now, |facts| published.push(facts));
        }
        published
    }

    /// Begins an iteration with facts of another worker.
    pub fn receive(&mut self, facts: &[PublishedFact], now: Instant) {
        self.app.on_iteration(now);
        self.network.receive_facts(&mut self.app, facts, now);
    }

    /// Takes what was sent and logged.
    pub fn take_output(&mut self) -> AppOutput {
        AppOutput { messages: self.network.take_messages(), log: self.network.take_reports().0 }
    }
}

/// One iteration of each worker, in turn; all others receive its facts at once. Returns these facts.
pub fn run_iterations<A: App>(workers: &mut [AppWorker<A>], now: Instant) -> Vec<PublishedFact> {
    let mut all = Vec::new();
    for from in 0..workers.len() {
        let mut published = Vec::new();
        if let Some(AppWorker { app, network }) = workers.get_mut(from) {
            network.begin_iteration(now);
            app.on_iteration(now);
            network.deliver(app, now, |facts| published.extend_from_slice(&facts));
        }
        for (_, other) in workers.iter_mut().enumerate().filter(|&(to, _)| to != from) {
            other.network.receive_facts(&mut other.app, &published, now);
        }
        all.append(&mut published);
    }
    all
}
