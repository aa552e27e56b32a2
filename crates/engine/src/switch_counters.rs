//! Counters of each connected switch.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluice_base::metrics::{MetricSample, MetricValue};
use sluice_openflow::{DatapathId, Version};

use crate::counters::Counter;

/// Counters of one connected switch, from the end of its handshake on. Its worker writes them, any thread may read them.
#[derive(Debug)]
pub(crate) struct SwitchCounters {
    datapath_id: DatapathId,
    version: Version,
    ip: IpAddr,
    /// Since 1970-01-01 UTC.
    connected_at: Duration,
    pub(crate) messages_received: Counter,
    pub(crate) packet_ins_received: Counter,
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
        ip: IpAddr,
        connected_at: Duration,
    ) -> Self {
        Self {
            datapath_id,
            version,
            ip,
            connected_at,
            messages_received: Counter::default(),
            packet_ins_received: Counter::default(),
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
            labels: vec![switch.dpid(), version, ("address", switch.ip.to_string())],
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
