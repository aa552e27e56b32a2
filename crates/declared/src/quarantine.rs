//! Quarantined hosts: what they send and what is sent to them is dropped at every switch.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_openflow::{DatapathId, MacAddr, PortNo};
use sluice_sdk::view::{Host, NetworkView, SwitchPort};

use crate::entry::{Entry, Quarantined};

/// Hosts that may be in quarantine: each takes two flow entries of every switch.
pub const QUARANTINES_MAX: usize = 1024;

/// Characters of a reason.
const REASON_LEN_MAX: usize = 256;

/// Why a host is in quarantine, since when, and what was known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineInfo {
    /// What an operator has written about it.
    pub reason: Option<String>,
    /// Who has asked for it: `token NAME`, `uid 1000` or `local`.
    pub by: String,
    /// Since 1970-01-01 UTC, in seconds.
    pub since_unix_s: u64,
    /// The port at which the host was then, if it was known: datapath id and port.
    at: Option<(u64, u32)>,
    /// Whether no other host was known at this port.
    is_alone: bool,
    /// The IP addresses that it had then.
    pub addresses: Vec<IpAddr>,
}

/// A host in quarantine, and the flow entries that keep its packets out of the network.
#[derive(Debug)]
pub struct Quarantine {
    /// The host, in all VLANs.
    pub mac: MacAddr,
    /// What is known about it.
    pub info: QuarantineInfo,
    /// One for what it sends, one for what is sent to it.
    pub entries: [Arc<Entry>; 2],
}

/// Why a host is not put into quarantine, or not released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuarantineError {
    /// No host has this address.
    NoHostAddress(MacAddr),
    /// The host is in quarantine.
    Already(MacAddr),
    /// The host is not in quarantine.
    NotQuarantined(MacAddr),
    /// There are [`QUARANTINES_MAX`].
    TooMany,
    /// The reason is too long or has control characters.
    InvalidReason,
}

impl fmt::Display for QuarantineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHostAddress(mac) => {
                write!(
                    f,
                    "{mac} is not the address of a host (expected no multicast address, and not zero)"
                )
            }
            Self::Already(mac) => write!(f, "host {mac} is in quarantine already"),
            Self::NotQuarantined(mac) => write!(f, "host {mac} is not in quarantine"),
            Self::TooMany => write!(f, "{QUARANTINES_MAX} hosts are in quarantine already"),
            Self::InvalidReason => write!(
                f,
                "invalid reason (expected at most {REASON_LEN_MAX} characters, and no control characters)"
            ),
        }
    }
}

impl std::error::Error for QuarantineError {}

impl QuarantineInfo {
    /// What is known of a quarantine that `by` has ended.
    #[must_use]
    pub fn ended_by(&self, by: String) -> Self {
        Self { reason: None, by, ..self.clone() }
    }

    /// A quarantine that begins at `since`, of a host of which nothing is known.
    pub fn new(by: String, reason: Option<String>, since: Duration) -> Self {
        let since_unix_s = since.as_secs();
        Self { reason, by, since_unix_s, at: None, is_alone: false, addresses: vec![] }
    }

    /// Adds the port and the IP addresses of the host, as the view has them.
    #[must_use]
    pub fn with_host(self, host: &Host, view: &NetworkView) -> Self {
        let at = (host.at.switch.0, host.at.port.0);
        let mut macs = view.hosts_at(host.at).map(|(id, _)| id.mac);
        let first = macs.next();
        let is_alone = macs.all(|mac| Some(mac) == first);
        Self { at: Some(at), is_alone, addresses: host.addrs.clone(), ..self }
    }

    /// The port at which the host was when the quarantine began.
    pub fn at(&self) -> Option<SwitchPort> {
        self.at.map(|(switch, port)| SwitchPort::new(DatapathId(switch), PortNo(port)))
    }

    /// The port at which the host was alone when the quarantine began.
    pub fn own_port(&self) -> Option<SwitchPort> {
        self.at().filter(|_| self.is_alone)
    }

    fn has_valid_reason(&self) -> bool {
        self.reason.as_ref().is_none_or(|reason| {
            reason.chars().count() <= REASON_LEN_MAX && !reason.contains(char::is_control)
        })
    }
}

impl Quarantine {
    /// Checks a quarantine, and makes its flow entries.
    pub(crate) fn new(
        mac: MacAddr,
        info: QuarantineInfo,
        revision: u64,
    ) -> Result<Self, QuarantineError> {
        if mac.is_group() || mac == MacAddr::default() {
            return Err(QuarantineError::NoHostAddress(mac));
        }
        if !info.has_valid_reason() {
            return Err(QuarantineError::InvalidReason);
        }
        let since = Duration::from_secs(info.since_unix_s);
        let entry = |what| Arc::new(Entry::quarantine(mac, what, revision, since));
        let entries = [Quarantined::From, Quarantined::To].map(entry);
        Ok(Self { mac, info, entries })
    }
}
