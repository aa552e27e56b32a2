//! What the worker of one switch finds out about a host that another worker may serve.

use std::net::IpAddr;

use sluice_sdk::view::{AppEvent, HostId, SwitchPort};

/// Evidence about a host. It is for the worker that serves the switch of the host, or that sent the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostEvidence {
    /// The host answered a probe that asked whether it is at a port and has an address.
    ProbeAnswered { host: HostId, at: SwitchPort, addr: IpAddr },
    /// A packet of the host arrived at its port after it was [in doubt](sluice_sdk::view::HostInDoubt).
    SeenAtPort { host: HostId, at: SwitchPort },
    /// A DHCP message that assigns an address to the host arrived. `server` is the port of its sender, if that sender has the
    /// address that the message came from.
    AddressLeased { host: HostId, addr: IpAddr, server: Option<SwitchPort> },
}

impl AppEvent for HostEvidence {}
