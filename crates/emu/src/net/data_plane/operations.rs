//! Operations on a network, and its observable state.

use sluice_openflow::{FieldId, FlowMod, MacAddr};

use super::{
    CapturedFrame, DataPlane, Duration, EmulatedSwitch, FrameCounters, FrameTraces, Host,
    HostEvent, Instant, IpAddr, LinkEnd, LinkImpairments, LinkSide, NetworkError, PortRef,
    SessionError, Topology, UdpStream,
};

impl DataPlane {
    /// The control connection of a switch is open.
    pub fn control_connected(&mut self, now: Instant, switch: usize) {
        self.with_switch(now, switch, |switch, out| switch.on_connected(now, out));
    }

    /// The control connection of a switch is closed; its unsent output is discarded.
    pub fn control_disconnected(&mut self, now: Instant, switch: usize) {
        self.with_switch(now, switch, |switch, _| switch.on_disconnected(now));
        if let Some(switch) = self.switches.get_mut(switch) {
            switch.control.clear();
        }
    }

    /// Bytes arrived from the controller.
    ///
    /// # Errors
    /// Why the switch closes the connection, after its output has been sent.
    pub fn on_control_bytes(
        &mut self,
        now: Instant,
        switch: usize,
        bytes: &[u8],
    ) -> Result<(), SessionError> {
        let result = self
            .with_switch(now, switch, |switch, out| Some(switch.on_control_bytes(now, bytes, out)));
        let result = result.unwrap_or(Ok(()));
        if let Err(error) = result {
            self.session_error.get_or_insert((switch, error));
        }
        result
    }

    /// The first switch that could not understand what the controller sent, and why.
    pub fn session_error(&self) -> Option<(usize, SessionError)> {
        self.session_error
    }

    /// The next switch with output for the controller, and the output.
    pub fn take_control_output(&mut self) -> Option<(usize, Vec<u8>)> {
        while let Some(index) = self.switches_with_output.pop() {
            let bytes =
                self.switches.get_mut(index).map(|switch| std::mem::take(&mut switch.control));
            if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
                return Some((index, bytes));
            }
        }
        None
    }

    /// Reports how many bytes of a switch's output wait to be sent:
    /// [`EmulatedSwitchConfig::tx_backlog_max`](crate::switch::EmulatedSwitchConfig::tx_backlog_max).
    pub fn set_tx_backlog(&mut self, switch: usize, bytes: usize) {
        if let Some(switch) = self.switches.get_mut(switch) {
            switch.tx_backlog = bytes;
        }
    }

    /// Changes [`EmulatedSwitchConfig::unsupported_fields`](crate::switch::EmulatedSwitchConfig::unsupported_fields) of
    /// a switch. Existing flow entries stay.
    pub fn set_unsupported_fields(&mut self, switch: usize, fields: Vec<FieldId>) {
        if let Some(switch) = self.switches.get_mut(switch) {
            switch.switch.inner.set_unsupported_fields(fields);
        }
    }

    /// Events of hosts since the last call, with the index of the host.
    pub fn take_host_events(&mut self) -> Vec<(usize, HostEvent)> {
        std::mem::take(&mut self.host_events)
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
    ) -> Result<(), NetworkError> {
        self.with_host(now, host, |host, out| host.ping(now, to, timeout, out))
    }

    /// Lets a host open a TCP connection, send `len` bytes and close it; returns the number of the connection.
    ///
    /// # Errors
    /// There is no such host.
    pub fn open_tcp(
        &mut self,
        now: Instant,
        host: usize,
        (to, port, len): (IpAddr, u16, u64),
    ) -> Result<u32, NetworkError> {
        self.with_host(now, host, |host, out| host.connect(now, to, port, len, out))
    }

    /// Lets a host send a UDP stream; returns its number, or `None` if the host has too many.
    ///
    /// # Errors
    /// There is no such host.
    pub fn start_stream(
        &mut self,
        now: Instant,
        host: usize,
        stream: UdpStream,
    ) -> Result<Option<u32>, NetworkError> {
        self.with_host(now, host, |host, _| host.start_stream(now, stream))
    }

    /// Stops a stream of a host.
    ///
    /// # Errors
    /// There is no such host.
    pub fn stop_stream(&mut self, now: Instant, host: usize, id: u32) -> Result<(), NetworkError> {
        self.with_host(now, host, |host, _| host.stop_stream(id))
    }

    /// Lets a host announce its addresses.
    ///
    /// # Errors
    /// There is no such host.
    pub fn announce(&mut self, now: Instant, host: usize) -> Result<(), NetworkError> {
        self.with_host(now, host, Host::announce)
    }

    /// Adds a neighbour to a host, so that its address need not be resolved.
    ///
    /// # Errors
    /// There is no such host.
    pub fn add_neighbour(
        &mut self,
        now: Instant,
        host: usize,
        (ip, mac): (IpAddr, MacAddr),
    ) -> Result<(), NetworkError> {
        self.with_host(now, host, |host, out| host.add_neighbour(now, ip, mac, out))
    }

    /// Lets a host send any frame, even a spoofed one.
    ///
    /// # Errors
    /// There is no such host.
    pub fn send_frame(
        &mut self,
        now: Instant,
        host: usize,
        frame: Vec<u8>,
    ) -> Result<(), NetworkError> {
        self.with_host(now, host, |_, out| out.push(frame))
    }

    /// Captures all frames that arrive at a host from now on, also those for other hosts.
    pub fn capture_frames(&mut self, host: usize) {
        self.capture.start(host);
    }

    /// The frames captured since the last call, in the order of their arrival. At most a million wait; later ones are discarded.
    pub fn take_captured_frames(&mut self) -> Vec<CapturedFrame> {
        self.capture.take()
    }

    /// Applies a change of the flow tables of a switch by another program than the controller. Returns whether the switch accepts
    /// it.
    ///
    /// # Errors
    /// There is no such switch.
    pub fn change_tables(
        &mut self,
        now: Instant,
        switch: usize,
        flow_mod: FlowMod,
    ) -> Result<bool, NetworkError> {
        if self.switch(switch).is_none() {
            return Err(NetworkError::NotFound { what: "switch", index: switch });
        }
        Ok(self.with_switch(now, switch, |switch, out| switch.change_tables(now, flow_mod, out)))
    }

    /// Cuts or restores a link. Its ports go down or up, and frames in transit are dropped.
    ///
    /// # Errors
    /// There is no such link.
    pub fn set_link_state(
        &mut self,
        now: Instant,
        link: usize,
        state: LinkState,
    ) -> Result<(), NetworkError> {
        let is_up = state == LinkState::Up;
        let link_model =
            self.links.get_mut(link).ok_or(NetworkError::NotFound { what: "link", index: link })?;
        if link_model.is_up == is_up {
            return Ok(());
        }
        self.frames_in_flight -= link_model.set_up(is_up);
        for end in [link_model.a, link_model.b] {
            if let LinkEnd::Port(port) = end {
                self.set_port(now, port, is_up);
            }
        }
        Ok(())
    }

    /// Changes the impairments of a link.
    ///
    /// # Errors
    /// There is no such link.
    pub fn set_link_impairments(
        &mut self,
        now: Instant,
        link: usize,
        shape: LinkImpairments,
    ) -> Result<(), NetworkError> {
        let link_model =
            self.links.get_mut(link).ok_or(NetworkError::NotFound { what: "link", index: link })?;
        link_model.set_impairments(now, shape);
        self.schedule_link(link, LinkSide::A);
        self.schedule_link(link, LinkSide::B);
        Ok(())
    }

    /// Moves a host to a free port, which comes up. Its old port goes down, unless it was at a hub, and it announces itself.
    ///
    /// # Errors
    /// There is no such host; the port does not exist or is in use.
    pub fn move_host(
        &mut self,
        now: Instant,
        host: usize,
        to: PortRef,
    ) -> Result<(), NetworkError> {
        self.plug_host(now, host, to, OldPort::GoesDown)?;
        self.announce(now, host)
    }

    /// Moves a host to a free port, which comes up. Its old port stays up, as if the host had been behind an unmanaged switch,
    /// and it announces nothing.
    ///
    /// # Errors
    /// There is no such host; the port does not exist or is in use.
    pub fn move_host_silently(
        &mut self,
        now: Instant,
        host: usize,
        to: PortRef,
    ) -> Result<(), NetworkError> {
        self.plug_host(now, host, to, OldPort::StaysUp)
    }

    fn plug_host(
        &mut self,
        now: Instant,
        host: usize,
        to: PortRef,
        old_port: OldPort,
    ) -> Result<(), NetworkError> {
        if self.port(to).is_none_or(|port| port.is_some()) {
            return Err(NetworkError::PortUnavailable(to));
        }
        self.unplug_host(now, host, old_port)?;
        let link = self.host_link(host);
        if let Some(node) = self.topology.hosts.get_mut(host) {
            node.port = to;
        }
        if let Some(port) = self.port(to) {
            *port = Some((link, LinkSide::A));
        }
        let Some(link_model) = self.links.get_mut(link) else { return Ok(()) };
        link_model.a = LinkEnd::Port(to);
        let is_up = link_model.is_up;
        self.set_port(now, to, is_up);
        Ok(())
    }

    /// A free port of a switch.
    pub fn free_port(&self, switch: usize) -> Option<PortRef> {
        let ports = (1..).zip(&self.switches.get(switch)?.ports);
        let free =
            ports.filter(|(_, link_model)| link_model.is_none()).map(|(port, _)| port).next()?;
        Some(PortRef { switch, port: sluice_openflow::PortNo(free) })
    }

    /// The port of a switch with the highest number, if it is free.
    pub fn last_port(&self, switch: usize) -> Option<PortRef> {
        let ports = &self.switches.get(switch)?.ports;
        let port = u32::try_from(ports.len()).ok()?;
        let is_free = ports.last()?.is_none();
        is_free.then_some(PortRef { switch, port: sluice_openflow::PortNo(port) })
    }

    /// The number of a host's link.
    pub fn host_link(&self, host: usize) -> usize {
        self.topology.links.len() + host
    }

    /// The topology, with hosts where they are now.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A switch by its index.
    pub fn switch(&self, index: usize) -> Option<&EmulatedSwitch> {
        self.switches.get(index).map(|switch| &switch.switch.inner)
    }

    /// A host by its index.
    pub fn host(&self, index: usize) -> Option<&Host> {
        self.hosts.get(index).map(|host| &host.inner)
    }

    /// The state and the counters of a link.
    pub fn link(&self, index: usize) -> Option<(LinkState, FrameCounters)> {
        let link_model = self.links.get(index)?;
        Some((if link_model.is_up { LinkState::Up } else { LinkState::Down }, link_model.counters))
    }

    /// Number of links, including those of hosts.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// Multicast and broadcast frames sent, counting every copy on every link.
    pub fn multicast_frames(&self) -> u64 {
        self.links.iter().map(|link_model| link_model.counters.multicast).sum()
    }

    /// Traces of frames.
    pub fn traces(&self) -> &FrameTraces {
        &self.traces
    }

    /// Most copies of one frame within a second.
    pub fn frame_copies_max(&self) -> u64 {
        self.storm.copies_max_seen()
    }
}

/// What happens to the port from which a host is unplugged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OldPort {
    GoesDown,
    StaysUp,
}

/// Whether a link is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Up.
    Up,
    /// Cut.
    Down,
}
