//! What is done to a network from outside, and what can be seen of it.

use sluice_openflow::{FieldId, MacAddr};

use super::{
    Duration, End, Fabric, Host, Instant, IpAddr, ModelSwitch, NetError, Outcome, Place,
    SessionError, Settings, Side, Stream, Topology, Traces, WireCounts,
};

impl Fabric {
    /// The control connection of a switch is there.
    pub fn connect(&mut self, now: Instant, switch: usize) {
        self.with_switch(now, switch, |switch, out| switch.connect(now, out));
    }

    /// The control connection of a switch is gone, and what it had to say with it.
    pub fn disconnect(&mut self, now: Instant, switch: usize) {
        self.with_switch(now, switch, |switch, _| switch.disconnect(now));
        if let Some(switch) = self.switches.get_mut(switch) {
            switch.control.clear();
        }
    }

    /// Bytes came from the controller.
    ///
    /// # Errors
    /// The reason for which the switch closes the connection, after it has said what it has to say.
    pub fn on_control(
        &mut self,
        now: Instant,
        switch: usize,
        bytes: &[u8],
    ) -> Result<(), SessionError> {
        let heard =
            self.with_switch(now, switch, |switch, out| Some(switch.on_control(now, bytes, out)));
        heard.unwrap_or(Ok(()))
    }

    /// A switch with something to say to the controller, and what it says.
    pub fn take_control(&mut self) -> Option<(usize, Vec<u8>)> {
        while let Some(index) = self.speaking.pop() {
            let said =
                self.switches.get_mut(index).map(|switch| std::mem::take(&mut switch.control));
            if let Some(said) = said.filter(|said| !said.is_empty()) {
                return Some((index, said));
            }
        }
        None
    }

    /// So many bytes of what a switch said wait to be sent: [`Plan::untaken_max`](crate::switch::Plan::untaken_max).
    pub fn set_untaken(&mut self, switch: usize, bytes: usize) {
        if let Some(switch) = self.switches.get_mut(switch) {
            switch.untaken = bytes;
        }
    }

    /// A switch does not match these fields from now on:
    /// [`Plan::refused_fields`](crate::switch::Plan::refused_fields). Its rules stay.
    pub fn set_refused_fields(&mut self, switch: usize, fields: Vec<FieldId>) {
        if let Some(switch) = self.switches.get_mut(switch) {
            switch.model.inner.set_refused_fields(fields);
        }
    }

    /// What became of what hosts were told to do, since this was called last, with the index of the host.
    pub fn take_outcomes(&mut self) -> Vec<(usize, Outcome)> {
        std::mem::take(&mut self.outcomes)
    }

    /// Lets a host ping an address.
    ///
    /// # Errors
    /// There is no such host.
    pub fn ping(
        &mut self,
        now: Instant,
        host: usize,
        to: IpAddr,
        timeout: Duration,
    ) -> Result<(), NetError> {
        self.with_host(now, host, |host, out| host.ping(now, to, timeout, out))
    }

    /// Lets a host open a connection, send `len` bytes and close; returns the number of the connection.
    ///
    /// # Errors
    /// There is no such host.
    pub fn open(
        &mut self,
        now: Instant,
        host: usize,
        (to, port, len): (IpAddr, u16, u64),
    ) -> Result<u32, NetError> {
        self.with_host(now, host, |host, out| host.connect(now, to, port, len, out))
    }

    /// Lets a host send a stream; returns its number, or `None` if the host has too many.
    ///
    /// # Errors
    /// There is no such host.
    pub fn stream(
        &mut self,
        now: Instant,
        host: usize,
        stream: Stream,
    ) -> Result<Option<u32>, NetError> {
        self.with_host(now, host, |host, _| host.stream(now, stream))
    }

    /// Ends a stream of a host.
    ///
    /// # Errors
    /// There is no such host.
    pub fn stop_stream(&mut self, now: Instant, host: usize, id: u32) -> Result<(), NetError> {
        self.with_host(now, host, |host, _| host.stop_stream(id))
    }

    /// Lets a host tell everybody where it is.
    ///
    /// # Errors
    /// There is no such host.
    pub fn announce(&mut self, now: Instant, host: usize) -> Result<(), NetError> {
        self.with_host(now, host, Host::announce)
    }

    /// Tells a host where a neighbour is, so that it need not ask.
    ///
    /// # Errors
    /// There is no such host.
    pub fn introduce(
        &mut self,
        now: Instant,
        host: usize,
        (ip, mac): (IpAddr, MacAddr),
    ) -> Result<(), NetError> {
        self.with_host(now, host, |host, out| host.introduce(now, ip, mac, out))
    }

    /// Lets a host send any frame, be it a forged one.
    ///
    /// # Errors
    /// There is no such host.
    pub fn inject(&mut self, now: Instant, host: usize, frame: Vec<u8>) -> Result<(), NetError> {
        self.with_host(now, host, |_, out| out.push(frame))
    }

    /// Cuts a link, or joins it again. Its ports go down or up, and what is on its way is lost.
    ///
    /// # Errors
    /// There is no such link.
    pub fn set_link(&mut self, now: Instant, link: usize, state: Link) -> Result<(), NetError> {
        let is_up = state == Link::Up;
        let wire =
            self.wires.get_mut(link).ok_or(NetError::Nobody { what: "link", index: link })?;
        if wire.is_up == is_up {
            return Ok(());
        }
        self.flying -= wire.set_up(is_up);
        for end in [wire.a, wire.b] {
            if let End::Port(place) = end {
                self.set_port(now, place, is_up);
            }
        }
        Ok(())
    }

    /// Lets a link carry frames differently from now on.
    ///
    /// # Errors
    /// There is no such link.
    pub fn shape(&mut self, now: Instant, link: usize, shape: Settings) -> Result<(), NetError> {
        let wire =
            self.wires.get_mut(link).ok_or(NetError::Nobody { what: "link", index: link })?;
        wire.set(now, shape);
        self.arm(link, Side::A);
        self.arm(link, Side::B);
        Ok(())
    }

    /// Moves a host to a port at which nothing is. The ports go down and up, and the host tells everybody.
    ///
    /// # Errors
    /// There is no such host, or the port is not there or taken.
    pub fn move_host(&mut self, now: Instant, host: usize, to: Place) -> Result<(), NetError> {
        let node = self.topology.hosts.get_mut(host);
        let node = node.ok_or(NetError::Nobody { what: "host", index: host })?;
        let from = node.at;
        if self.port(to).is_none_or(|port| port.is_some()) {
            return Err(NetError::Taken(to));
        }
        let link = self.host_link(host);
        if let Some(node) = self.topology.hosts.get_mut(host) {
            node.at = to;
        }
        if let Some(port) = self.port(from) {
            *port = None;
        }
        if let Some(port) = self.port(to) {
            *port = Some((link, Side::A));
        }
        let Some(wire) = self.wires.get_mut(link) else { return Ok(()) };
        self.flying -= wire.empty();
        wire.a = End::Port(to);
        let is_up = wire.is_up;
        self.set_port(now, from, false);
        self.set_port(now, to, is_up);
        self.announce(now, host)
    }

    /// A port of a switch at which nothing is.
    pub fn free_port(&self, switch: usize) -> Option<Place> {
        let ports = (1..).zip(&self.switches.get(switch)?.ports);
        let free = ports.filter(|(_, wire)| wire.is_none()).map(|(port, _)| port).next()?;
        Some(Place { switch, port: sluice_openflow::PortNo(free) })
    }

    /// The number of the link of a host.
    pub fn host_link(&self, host: usize) -> usize {
        self.topology.links.len() + host
    }

    /// The network as it is: moved hosts are where they are now.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A switch.
    pub fn switch(&self, index: usize) -> Option<&ModelSwitch> {
        self.switches.get(index).map(|switch| &switch.model.inner)
    }

    /// A host.
    pub fn host(&self, index: usize) -> Option<&Host> {
        self.hosts.get(index).map(|host| &host.inner)
    }

    /// Whether a link is up, and what it carried.
    pub fn link(&self, index: usize) -> Option<(Link, WireCounts)> {
        let wire = self.wires.get(index)?;
        Some((if wire.is_up { Link::Up } else { Link::Down }, wire.counts))
    }

    /// How many links there are, those of hosts included.
    pub fn n_links(&self) -> usize {
        self.wires.len()
    }

    /// Frames that were sent into links for a group, every copy on every link.
    pub fn group_frames(&self) -> u64 {
        self.wires.iter().map(|wire| wire.counts.group).sum()
    }

    /// Where frames that are followed came by.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// The most copies of one frame that were seen within a second.
    pub fn copies(&self) -> u64 {
        self.storm.most()
    }
}

/// Whether a link carries anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It does.
    Up,
    /// It is cut.
    Down,
}
