//! Verifies the flow entries of a switch, after changes were lost and now and then, and deletes those that are wrong.
//!
//! Right is an entry that sends to the port of the host or to a switch that is nearer to it, so that the right entries of all
//! switches together contain no loop, and that matches no host at a port where it is not. Packets whose entries are missing come to the controller, which installs their path.

use sluice_openflow::{Message, PortNo};
use sluice_sdk::view::{HostId, NetworkView, PortRole, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::flow_entries::{EntryFilter, EntryPage};
use super::switches::{EntryQuery, LocalSwitches, QueryPurpose};
use sluice_sdk::routes::Routes;

impl LocalSwitches {
    /// Requests the flow entries of a switch, of which those that are wrong will be deleted.
    pub(super) fn verify_entries(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(switch) = self.all.get_mut(&ctx.datapath_id) {
            switch.verify(QueryPurpose::VerifyNow, ctx.now);
        }
        self.start_query(ctx);
    }

    /// When entries of a switch that is verified have been listed, deletes those that are wrong. Returns the number of
    /// deletions sent.
    pub(super) fn delete_wrong_entries(&mut self, routes: &mut Routes, ctx: &mut Ctx<'_>) -> u64 {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        let purpose = switch.purpose;
        if !purpose.is_verification() {
            return 0;
        }
        if switch.query == EntryQuery::Done {
            switch.purpose = QueryPurpose::FindHosts;
        }
        let hosts_by_port = std::mem::take(&mut switch.hosts_by_port);
        let sources_by_port = std::mem::take(&mut switch.sources_by_port);
        let mut deleted = 0;
        let mut delete = |filter, network: &mut Network| {
            deleted += u64::from(self.delete(ctx.datapath_id, filter, ctx.now, network));
        };
        for (port, mut hosts) in hosts_by_port {
            let at = SwitchPort::new(ctx.datapath_id, port);
            if ctx.network.view().port(at).is_none_or(|port| !port.is_up) {
                delete(EntryFilter::ToPort(port), ctx.network);
                continue;
            }
            hosts.sort_unstable();
            hosts.dedup();
            for host in hosts {
                if is_wrong(host, at, routes, ctx.network.view()) {
                    delete(EntryFilter::ToHost(host, port), ctx.network);
                }
            }
        }
        for (port, mut hosts) in sources_by_port {
            let at = SwitchPort::new(ctx.datapath_id, port);
            hosts.sort_unstable();
            hosts.dedup();
            for host in hosts {
                if has_left(host, at, ctx.network.view()) {
                    delete(EntryFilter::FromHost(host, port), ctx.network);
                }
            }
        }
        if deleted > 0 && purpose == QueryPurpose::VerifyInBackground {
            let id = ctx.datapath_id;
            ctx.network.report(|| {
                format!("switch had wrong flow entries of forwarding; they are deleted dpid={id} deletions={deleted}")
            });
        }
        deleted
    }

    /// Deletes the flow entries of a page that has too many to be listed and cannot be split. Returns the number of deletions
    /// sent.
    pub(super) fn delete_page(&mut self, page: EntryPage, ctx: &mut Ctx<'_>) -> u64 {
        let filter = page.filter();
        if filter == EntryFilter::ToPort(PortNo::ANY) {
            return self.delete_all(ctx);
        }
        u64::from(self.delete(ctx.datapath_id, filter, ctx.now, ctx.network))
    }

    /// Deletes all flow entries of a switch. Returns the number of deletions sent.
    pub(super) fn delete_all(&mut self, ctx: &mut Ctx<'_>) -> u64 {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        switch.purpose = QueryPurpose::FindHosts;
        if let Some(deletion) = switch.selector.delete_all() {
            ctx.send_to(ctx.datapath_id, Message::FlowMod(deletion));
            return 1;
        }
        let info = ctx.network.view().switch(ctx.datapath_id);
        let ports: Vec<_> =
            info.into_iter().flat_map(|switch| switch.ports.keys().copied()).collect();
        for &port in &ports {
            self.delete(ctx.datapath_id, EntryFilter::ToPort(port), ctx.now, ctx.network);
        }
        ports.len() as u64
    }
}

/// Whether flow entries for packets from a host at the port `at` are wrong: they would hide it if it returned there.
fn has_left(id: HostId, at: SwitchPort, view: &NetworkView) -> bool {
    let attachment = view.attachment_port(at);
    attachment.is_some_and(|at| view.host(id).is_none_or(|host| host.at != at))
}

/// Whether flow entries that send packets for a host to the port `at`, which is up, are wrong.
fn is_wrong(id: HostId, at: SwitchPort, routes: &mut Routes, view: &NetworkView) -> bool {
    let Some(host) = view.host(id) else { return true };
    if host.at.switch == at.switch {
        return host.at != at;
    }
    // Without a path, the entry may lead over switches that are disconnected and still forward.
    let Some(distance) = routes.distance(view, at.switch, host.at.switch) else { return false };
    match view.link_from(at).map(|link| link.to.switch) {
        Some(next) => {
            routes.distance(view, next, host.at.switch).is_none_or(|left| left >= distance)
        }
        None => view.port_role(at) != PortRole::Pending,
    }
}
