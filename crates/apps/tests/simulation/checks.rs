//! What must hold after the network has recovered.

use super::*;

/// Checks that all hosts reach each other and that no flow entry is stale, before and after the pings.
pub(super) fn check_pings(net: &mut ChainSimulation) -> Result<(), String> {
    let topology = net.data_plane().topology().clone();
    check_flow_entries(net).map_err(|why| format!("before the pings: {why}"))?;
    for family in [IpFamily::V4, IpFamily::V6] {
        // A host that has moved may be learned only from the first pings.
        let timeout = Duration::from_secs(5);
        net.ping(PingSummary::all_pairs(&topology), family, timeout).map_err(|e| e.to_string())?;
        let pings = net.ping(PingSummary::all_pairs(&topology), family, timeout);
        let pings = pings.map_err(|e| e.to_string())?;
        if let Some(&(from, to)) = pings.lost_pairs.first() {
            let (answered, lost) = (pings.answered, &pings.lost_pairs);
            let locations = [from, to].map(|host| host_location(net, host)).join("; ");
            let counts = metrics(net);
            return Err(format!(
                "{family:?}: of {answered} pings lost {lost:?}; {locations}; {counts}"
            ));
        }
    }
    check_flow_entries(net)
}

/// Checks that no frame circulates: while hosts send nothing, links carry only probes.
pub(super) fn check_idle_links(net: &mut ChainSimulation) -> Result<(), String> {
    // Lets replies and retransmissions finish.
    net.run_for(Duration::from_secs(2)).map_err(|e| e.to_string())?;
    let sent = |net: &ChainSimulation| -> Vec<u64> {
        let data_plane = net.data_plane();
        let links = (0..data_plane.link_count()).filter_map(|n| data_plane.link(n));
        links.map(|(_, counters)| counters.sent).collect()
    };
    let before = sent(net);
    net.run_for(Duration::from_secs(1)).map_err(|e| e.to_string())?;
    let mut frames = before.iter().zip(sent(net)).map(|(before, after)| after - before).enumerate();
    match frames.find(|&(_, frames)| frames > IDLE_FRAMES_MAX) {
        None => Ok(()),
        Some((link, frames)) => Err(format!("{frames} frames crossed link {link} in a second")),
    }
}

/// Checks that both ends of all connections could split what they received into messages, however these were torn and delayed,
/// and that the controller has closed no connection and lost no message of an application without a cause.
pub(super) fn check_connections(net: &ChainSimulation, faults: &Faults) -> Result<(), String> {
    if let Some((switch, error)) = net.data_plane().session_error() {
        return Err(format!("switch {switch} closed its connection: {error}"));
    }
    let mut unexplained = Vec::new();
    net.controller().metrics().collect(&mut |sample| {
        let reason = sample.labels.first().map(|(_, value)| value.as_str()).unwrap_or_default();
        let is_expected = match sample.name {
            "connections_closed" => faults.explain(reason),
            // Messages to a switch that has just disconnected.
            "app_messages_undeliverable" => faults.explain("closed_by_peer"),
            "malformed_messages" => false,
            _ => true,
        };
        if !is_expected && sample.value != MetricValue::Counter(0) {
            unexplained.push(format!("{} {reason} {:?}", sample.name, sample.value));
        }
    });
    if unexplained.is_empty() { Ok(()) } else { Err(format!("{unexplained:?} after {faults:?}")) }
}

/// Checks that all workers had the same view of the network whenever nothing was in flight between them.
pub(super) fn check_views(net: &ChainSimulation) -> Result<(), String> {
    if let Some(what) = net.controller().divergence() {
        return Err(format!("two workers have different views: {what}"));
    }
    let compared_at = net.controller().compared_at();
    let is_recent = compared_at.is_some_and(|at| at + Duration::from_secs(1) > net.now());
    is_recent
        .then_some(())
        .ok_or_else(|| "something is always in flight between workers".to_owned())
}

/// The location of a host, and what each worker knows of the host and its port.
fn host_location(net: &ChainSimulation, host: usize) -> String {
    let topology = net.data_plane().topology();
    let Some(node) = topology.hosts.get(host) else { return String::new() };
    let switch = topology.switches.get(node.port.switch).map(|switch| switch.datapath_id);
    let at = SwitchPort::new(switch.unwrap_or(DatapathId(0)), node.port.port);
    let id = HostId { mac: node.mac, vlan: node.vlan.unwrap_or(VlanId(0)) };
    let views = net.controller().networks().map(|network| {
        let view = network.view();
        let known = view.host(id).map(|host| host.at.to_string());
        format!("{known:?}, port is {:?}", view.port_role(at))
    });
    format!("{} is at {at}: {}", node.name, views.collect::<Vec<_>>().join(" / "))
}

/// Non-zero metrics of the applications, summed over workers.
pub(super) fn metrics(net: &ChainSimulation) -> String {
    let mut counts = BTreeMap::new();
    for app in net.controller().apps() {
        app.metrics(&mut |metric| *counts.entry(metric.name).or_insert(0) += metric.value);
    }
    counts.retain(|_, &mut n| n > 0);
    format!("{counts:?}")
}
