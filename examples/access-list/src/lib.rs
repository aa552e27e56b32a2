//! An access list: switches drop the packets of configured networks.
//!
//! It shows what an application in a crate of its own can use: a configuration, allocated cookies and priorities, requests to
//! switches with answers, timers, a record that all workers share, metrics, and a state for users.

mod config;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sluice_openflow::value::Value;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, EtherType, Field, FlowMod, FlowModCommand, Message, SwitchFeatures,
};
use sluice_sdk::allocation::Allocation;
use sluice_sdk::flow_space::EntryKind;
use sluice_sdk::view::AppRecord;
use sluice_sdk::{
    Answer, App, AppMetric, Application, Ctx, Network, SwitchIndex, Ticket, TimerId, Verdict,
};

pub use config::{Config, Prefix};

/// The flow entries of the access list. No other application has their cookies or their priority.
pub const ENTRIES: EntryKind = EntryKind::with_prefix("access-list", *b"acl ", 2000..=2000);

/// How long a switch may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Networks that the state lists for each switch.
const LISTED_MAX: usize = 20;

/// Entries of a switch, as the instances of the application on all workers know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installed {
    /// How many entries the switch has confirmed.
    pub entries: usize,
}

impl AppRecord for Installed {
    type Key = DatapathId;
}

/// What is known of the entry for a network in a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// The switch has not answered yet.
    Sent,
    /// The switch has confirmed it.
    Confirmed,
    /// The switch has refused it, or has not answered. It is written again later.
    Failed,
}

/// The access list of one worker.
#[derive(Debug)]
pub struct AccessList {
    config: Config,
    connected: BTreeMap<SwitchIndex, DatapathId>,
    switches: BTreeMap<DatapathId, BTreeMap<Prefix, Entry>>,
    /// What was asked, by the tickets of the requests.
    requests: BTreeMap<Ticket, (DatapathId, Prefix)>,
    /// The timers after which entries of a switch are written again.
    retries: BTreeMap<TimerId, DatapathId>,
    dropped: u64,
    refused: u64,
}

impl Application for AccessList {
    const NAME: &'static str = "access-list";
    const DESCRIPTION: &'static str = "drops packets of configured networks";
    const ALLOCATION: Allocation = Allocation::of_entries(&[ENTRIES]);
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            connected: BTreeMap::new(),
            switches: BTreeMap::new(),
            requests: BTreeMap::new(),
            retries: BTreeMap::new(),
            dropped: 0,
            refused: 0,
        }
    }

    /// The next tick writes what has changed.
    fn configure(&mut self, config: &Config) {
        self.config = config.clone();
    }
}

impl App for AccessList {
    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        // What an earlier connection has left may be of another configuration. Version 1.0 cannot select entries by their cookie.
        let _ = ctx.switch.flow_mod(&FlowMod {
            command: FlowModCommand::DELETE,
            cookie: ENTRIES.cookie,
            cookie_mask: ENTRIES.cookie_mask,
            table_id: FlowMod::TABLE_ALL,
            ..FlowMod::default()
        });
        self.connected.insert(ctx.switch_index, ctx.datapath_id);
        self.switches.insert(ctx.datapath_id, BTreeMap::new());
        self.update(ctx.datapath_id, ctx.now, ctx.network);
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        let Some(id) = self.connected.remove(&sw) else { return };
        self.switches.remove(&id);
        network.publish_record::<Installed>(now, id, None);
    }

    /// Four times a second: writes what a new configuration has changed.
    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.update(ctx.datapath_id, ctx.now, ctx.network);
    }

    /// The switch has lost changes: all entries are written again.
    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(entries) = self.switches.get_mut(&ctx.datapath_id) {
            entries.clear();
        }
        self.update(ctx.datapath_id, ctx.now, ctx.network);
    }

    /// Packets that come before the entry is in the switch.
    fn on_packet_in(&mut self, p: &PacketIn<'_>, _: &mut Ctx<'_>) -> Verdict {
        let source = ipv4_source(p.frame);
        if source.is_some_and(|source| self.config.deny.iter().any(|net| net.contains(source))) {
            self.dropped += 1;
            return Verdict::Stop;
        }
        Verdict::Continue
    }

    fn on_answer(&mut self, ticket: Ticket, answer: &Answer, now: Instant, network: &mut Network) {
        let Some((id, prefix)) = self.requests.remove(&ticket) else { return };
        let entry = self.switches.get_mut(&id).and_then(|entries| entries.get_mut(&prefix));
        let Some(entry) = entry else { return };
        if *answer == Answer::Done {
            *entry = Entry::Confirmed;
        } else {
            *entry = Entry::Failed;
            self.refused += 1;
            network.report(|| format!("access-list: dpid={id} network={prefix}: {answer}"));
            // Without a timer, the entry is written again when the switch connects again.
            if let Ok(timer) = network.set_timer(now + self.config.retry()) {
                self.retries.insert(timer, id);
            }
        }
        self.publish(id, now, network);
    }

    fn on_timer(&mut self, timer: TimerId, now: Instant, network: &mut Network) {
        let Some(id) = self.retries.remove(&timer) else { return };
        if let Some(entries) = self.switches.get_mut(&id) {
            entries.retain(|_, entry| *entry != Entry::Failed);
        }
        self.update(id, now, network);
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let entries = self.switches.values().flat_map(BTreeMap::values);
        let confirmed = entries.filter(|entry| **entry == Entry::Confirmed).count();
        put(AppMetric::gauge(
            "access_list_entries",
            "Flow entries of the access list in switches",
            confirmed as u64,
        ));
        put(AppMetric::counter(
            "access_list_refused",
            "Flow entries of the access list that a switch has refused",
            self.refused,
        ));
        put(AppMetric::counter(
            "access_list_dropped",
            "Packet-ins of denied networks that were dropped",
            self.dropped,
        ));
    }

    fn state(&self) -> Option<Value> {
        let switch = |(id, entries): (&DatapathId, &BTreeMap<Prefix, Entry>)| {
            let of = |wanted: Entry| {
                let prefixes = entries.iter().filter(move |(_, entry)| **entry == wanted);
                let texts = prefixes.map(|(prefix, _)| Value::Text(prefix.to_string()));
                Value::List(texts.take(LISTED_MAX).collect())
            };
            let [dropped, failed] = [of(Entry::Confirmed), of(Entry::Failed)];
            let state =
                vec![("dropped_networks".into(), dropped), ("failed_networks".into(), failed)];
            (id.to_string().into(), Value::Map(state))
        };
        Some(Value::Map(self.switches.iter().map(switch).collect()))
    }
}

impl AccessList {
    /// Makes the entries of a switch those of the configuration.
    fn update(&mut self, id: DatapathId, now: Instant, network: &mut Network) {
        let Some(entries) = self.switches.get_mut(&id) else { return };
        let wanted: BTreeSet<_> = self.config.deny.iter().copied().collect();
        let is_unwanted = |prefix: &Prefix| !wanted.contains(prefix);
        let removed: Vec<_> = entries.keys().copied().filter(is_unwanted).collect();
        for prefix in &removed {
            entries.remove(prefix);
            let delete = FlowMod { command: FlowModCommand::DELETE_STRICT, ..flow_mod(*prefix) };
            network.send_to(id, Message::FlowMod(delete));
        }
        for prefix in wanted {
            entries.entry(prefix).or_insert_with(|| {
                let ticket = network.request(id, Message::FlowMod(flow_mod(prefix)), TIMEOUT);
                self.requests.insert(ticket, (id, prefix));
                Entry::Sent
            });
        }
        if !removed.is_empty() {
            self.publish(id, now, network);
        }
    }

    /// Publishes how many entries a switch has.
    fn publish(&self, id: DatapathId, now: Instant, network: &mut Network) {
        let Some(entries) = self.switches.get(&id) else { return };
        let confirmed = entries.values().filter(|entry| **entry == Entry::Confirmed).count();
        network.publish_record(now, id, Some(Installed { entries: confirmed }));
    }
}

/// Drops what comes from a network: an entry without instructions. Every version can express it.
fn flow_mod(prefix: Prefix) -> FlowMod {
    let source = Field::ipv4_src(prefix.address()).with_prefix(prefix.bits());
    FlowMod {
        cookie: ENTRIES.cookie_with(0),
        priority: ENTRIES.priority(),
        matching: [Field::eth_type(EtherType::IPV4.0), source].into(),
        ..FlowMod::default()
    }
}

/// The source address of an untagged IPv4 frame.
fn ipv4_source(frame: &[u8]) -> Option<std::net::Ipv4Addr> {
    let eth =
        sluice_openflow::Ethernet::new(frame).filter(|eth| eth.ethertype == EtherType::IPV4)?;
    let header_len = if eth.tagged { 18 } else { 14 };
    let source = frame.get(header_len + 12..header_len + 16)?;
    <[u8; 4]>::try_from(source).ok().map(Into::into)
}
