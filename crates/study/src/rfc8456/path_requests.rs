//! Northbound requests that install paths or flow entries.

use sluice_emu::topology::Topology;
use sluice_openflow::{DatapathId, MacAddr};

use super::northbound::NorthboundClient;
use super::path::Hop;
use crate::definition::{PathRequest, PathRequestScope};
use crate::process::Placeholders;

/// A path to be requested.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathOrder<'o> {
    /// Number of the path, unique to the trial.
    pub(super) number: usize,
    pub(super) src: MacAddr,
    pub(super) dst: MacAddr,
    pub(super) hops: &'o [Hop],
}

/// Requests paths of one controller.
#[derive(Debug, Clone)]
pub(super) struct PathInstaller<'t> {
    client: NorthboundClient,
    request: PathRequest,
    topology: &'t Topology,
}

impl<'t> PathInstaller<'t> {
    /// With connections of its own.
    ///
    /// # Errors
    /// The controller has no northbound interface, or no request for paths.
    pub(super) fn new(client: &NorthboundClient, topology: &'t Topology) -> Result<Self, String> {
        let request = client.path()?.clone();
        Ok(Self { client: client.with_own_connections(), request, topology })
    }

    /// Requests a path: one request for all of it, or one for each switch, one after the other. Returns the last response.
    ///
    /// # Errors
    /// A request failed.
    pub(super) fn install(&self, order: PathOrder<'_>) -> Result<String, String> {
        let mut response = String::new();
        let requests = match self.request.per {
            PathRequestScope::Entry => order.hops,
            PathRequestScope::Entries | PathRequestScope::Path => {
                order.hops.get(..1).unwrap_or_default()
            }
        };
        let fill = |text: &str, hop: &Hop| {
            let datapath_id = self.topology.switches.get(hop.switch).map(|it| it.datapath_id);
            fill(text, order, *hop, datapath_id.unwrap_or(DatapathId(0)))
        };
        let entries: Vec<_> = order.hops.iter().map(|hop| fill(&self.request.entry, hop)).collect();
        for hop in requests {
            let url = self.client.fill(&fill(&self.request.url, hop));
            let body = fill(&self.request.body, hop);
            let body = Placeholders::replace(&body, &[("entries", entries.join(", "))]);
            let login = self.request.login.as_deref();
            response = self.client.send(&self.request.method, &url, &body, login)?;
        }
        Ok(response)
    }
}

/// A text of a request with its placeholders replaced, but those of the controller.
fn fill(text: &str, order: PathOrder<'_>, hop: Hop, datapath_id: DatapathId) -> String {
    let values = [
        ("name", format!("path-{}-{:016x}", order.number, datapath_id.0)),
        ("dpid", datapath_id.0.to_string()),
        ("dpid_hex", format!("{:016x}", datapath_id.0)),
        ("dpid_colons", colons(datapath_id)),
        ("in_port", hop.in_port.0.to_string()),
        ("out_port", hop.out_port.0.to_string()),
        ("src_mac", order.src.to_string()),
        ("dst_mac", order.dst.to_string()),
    ];
    Placeholders::replace(text, &values)
}

/// The 16 digits of a datapath id in pairs, separated by colons.
fn colons(datapath_id: DatapathId) -> String {
    let pairs = datapath_id.0.to_be_bytes().map(|byte| format!("{byte:02x}"));
    pairs.join(":")
}

#[cfg(test)]
mod tests {
    use sluice_openflow::PortNo;

    use super::*;

    #[test]
    fn requests_name_switch_ports_and_addresses() {
        let hop = Hop { switch: 1, in_port: PortNo(3), out_port: PortNo(4) };
        let [src, dst] = [1, 2].map(MacAddr::from_u64);
        let order = PathOrder { number: 7, src, dst, hops: &[hop] };
        let text = "{name} {dpid} {dpid_hex} {dpid_colons} {in_port} {out_port} {src_mac} {dst_mac} {port}";
        assert_eq!(
            fill(text, order, hop, DatapathId(26)),
            "path-7-000000000000001a 26 000000000000001a 00:00:00:00:00:00:00:1a 3 4 00:00:00:00:00:01 00:00:00:00:00:02 {port}"
        );
    }
}
