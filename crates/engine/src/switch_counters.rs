//! Counters of each connected switch, and what else other threads may know of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_base::metrics::{MetricSample, MetricValue};
use sluice_openflow::{DatapathId, Role, SwitchDesc, SwitchFeatures, Version};
use sluice_sdk::{SessionStatistics, SwitchError, SwitchSession};

use crate::counters::Counter;

/// `ERROR` messages of a switch that are kept for people.
const LAST_ERRORS_MAX: usize = 8;

/// What a switch has said of itself. Its worker writes it when that changes, at most once per tick.
#[derive(Debug)]
struct SwitchDescription {
    features: Arc<SwitchFeatures>,
    role: Option<Role>,
    desc: Option<Arc<SwitchDesc>>,
    /// The newest last.
    last_errors: VecDeque<SwitchError>,
}

/// Counters of one connected switch, from the end of its handshake on. Its worker writes them, any thread may read them.
#[derive(Debug)]
pub(crate) struct SwitchCounters {
    datapath_id: DatapathId,
    version: Version,
    addr: SocketAddr,
    /// Since 1970-01-01 UTC.
    connected_at: Duration,
    description: Mutex<SwitchDescription>,
    pub(crate) messages_received: Counter,
    pub(crate) packet_ins_received: Counter,
    /// Those of them that the kernel has answered.
    pub(crate) packet_ins_in_kernel: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) errors_received: Counter,
    pub(crate) malformed_messages: Counter,
    pub(crate) packet_ins_shed: Counter,
    /// Bytes queued for the switch.
    pub(crate) backlog_bytes: Counter,
}

impl SwitchCounters {
    pub(crate) fn new(
        datapath_id: DatapathId,
        version: Version,
        addr: SocketAddr,
        connected_at: Duration,
        features: Arc<SwitchFeatures>,
    ) -> Self {
        Self {
            datapath_id,
            version,
            addr,
            connected_at,
            description: Mutex::new(SwitchDescription {
                features,
                role: None,
                desc: None,
                last_errors: VecDeque::new(),
            }),
            messages_received: Counter::default(),
            packet_ins_received: Counter::default(),
            packet_ins_in_kernel: Counter::default(),
            bytes_received: Counter::default(),
            bytes_sent: Counter::default(),
            errors_received: Counter::default(),
            malformed_messages: Counter::default(),
            packet_ins_shed: Counter::default(),
            backlog_bytes: Counter::default(),
        }
    }

    pub(crate) fn datapath_id(&self) -> DatapathId {
        self.datapath_id
    }

    pub(crate) fn connected_at(&self) -> Duration {
        self.connected_at
    }

    /// Records the ports that the switch has now.
    pub(crate) fn set_features(&self, features: Arc<SwitchFeatures>) {
        self.description().features = features;
    }

    pub(crate) fn set_role(&self, role: Role) {
        self.description().role = Some(role);
    }

    pub(crate) fn set_desc(&self, desc: SwitchDesc) {
        self.description().desc = Some(Arc::new(desc));
    }

    /// Keeps an `ERROR` message; the oldest of too many is forgotten.
    pub(crate) fn record_error(&self, error: SwitchError) {
        let errors = &mut self.description().last_errors;
        if errors.len() >= LAST_ERRORS_MAX {
            errors.pop_front();
        }
        errors.push_back(error);
    }

    fn description(&self) -> MutexGuard<'_, SwitchDescription> {
        self.description.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What other threads may know of the session, which worker `worker` serves.
    pub(crate) fn session(&self, worker: usize) -> SwitchSession {
        let description = self.description();
        SwitchSession {
            datapath_id: self.datapath_id,
            version: self.version,
            addr: self.addr,
            worker,
            connected_at: self.connected_at,
            features: description.features.clone(),
            role: description.role,
            description: description.desc.clone(),
            statistics: SessionStatistics {
                messages_received: self.messages_received.get(),
                packet_ins_received: self.packet_ins_received.get(),
                bytes_received: self.bytes_received.get(),
                bytes_sent: self.bytes_sent.get(),
                errors_received: self.errors_received.get(),
                malformed_messages: self.malformed_messages.get(),
                packet_ins_shed: self.packet_ins_shed.get(),
                backlog_bytes: self.backlog_bytes.get(),
            },
            last_errors: description.last_errors.iter().copied().collect(),
        }
    }

    fn dpid(&self) -> (&'static str, String) {
        ("dpid", self.datapath_id.to_string())
    }
}

/// The counters of the connected switches of a worker.
///
/// # Cost
/// The worker takes the lock when a switch connects or disconnects, not to count. A reader holds it to copy the list.
#[derive(Debug, Default)]
pub(crate) struct ConnectedSwitchCounters(Mutex<BTreeMap<DatapathId, Arc<SwitchCounters>>>);

impl ConnectedSwitchCounters {
    pub(crate) fn insert(&self, counters: Arc<SwitchCounters>) {
        self.with_switches(|switches| switches.insert(counters.datapath_id, counters));
    }

    pub(crate) fn remove(&self, datapath_id: DatapathId) {
        self.with_switches(|switches| switches.remove(&datapath_id));
    }

    /// Removes `counters`, unless others have taken their place.
    pub(crate) fn remove_same(&self, counters: &Arc<SwitchCounters>) {
        self.with_switches(|switches| {
            let is_same = |it: &Arc<SwitchCounters>| Arc::ptr_eq(it, counters);
            if switches.get(&counters.datapath_id).is_some_and(is_same) {
                switches.remove(&counters.datapath_id);
            }
        });
    }

    pub(crate) fn contains(&self, datapath_id: DatapathId) -> bool {
        self.with_switches(|switches| switches.contains_key(&datapath_id))
    }

    pub(crate) fn all(&self) -> Vec<Arc<SwitchCounters>> {
        self.with_switches(|switches| switches.values().cloned().collect())
    }

    fn with_switches<T>(
        &self,
        f: impl FnOnce(&mut BTreeMap<DatapathId, Arc<SwitchCounters>>) -> T,
    ) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Name and help of a metric, and its counter.
type SwitchMetricRow = (&'static str, &'static str, fn(&SwitchCounters) -> &Counter);

const COUNTERS: [SwitchMetricRow; 7] = [
    ("switch_messages_received", "OpenFlow messages received from a switch", |s| {
        &s.messages_received
    }),
    ("switch_packet_ins_received", "Packet-ins received from a switch", |s| &s.packet_ins_received),
    ("switch_received_bytes", "Bytes received from a switch", |s| &s.bytes_received),
    ("switch_sent_bytes", "Bytes sent to a switch", |s| &s.bytes_sent),
    ("switch_errors_received", "OpenFlow ERROR messages received from a switch", |s| {
        &s.errors_received
    }),
    ("switch_malformed_messages", "Messages from a switch that could not be parsed", |s| {
        &s.malformed_messages
    }),
    (
        "switch_packet_ins_shed",
        "Packet-ins discarded because the switch is too slow in reading the responses",
        |s| &s.packet_ins_shed,
    ),
];

/// Passes the metrics of `switches` to `emit`, one series per switch and metric.
#[expect(clippy::cast_precision_loss, reason = "metrics need no more than 52 bits")]
pub(crate) fn collect(switches: &[Arc<SwitchCounters>], emit: &mut dyn FnMut(MetricSample)) {
    for switch in switches {
        let version = ("version", switch.version.to_string());
        emit(MetricSample {
            name: "switch_info",
            help: "A connected switch, with its OpenFlow version and IP address; always 1",
            // Without the port, which differs for each connection: a switch that reconnects gets the same series again.
            labels: vec![switch.dpid(), version, ("address", switch.addr.ip().to_string())],
            value: MetricValue::Gauge(1.0),
        });
    }
    for switch in switches {
        emit(MetricSample {
            name: "switch_connected_timestamp_seconds",
            help: "When a switch connected, in seconds since 1970-01-01 UTC",
            labels: vec![switch.dpid()],
            value: MetricValue::Gauge(switch.connected_at.as_secs_f64()),
        });
    }
    for switch in switches {
        emit(MetricSample {
            name: "switch_backlog_bytes",
            help: "Bytes queued for a switch that does not read fast enough",
            labels: vec![switch.dpid()],
            value: MetricValue::Gauge(switch.backlog_bytes.get() as f64),
        });
    }
    for (name, help, counter) in COUNTERS {
        for switch in switches {
            let value = MetricValue::Counter(counter(switch).get());
            emit(MetricSample { name, help, labels: vec![switch.dpid()], value });
        }
    }
}
