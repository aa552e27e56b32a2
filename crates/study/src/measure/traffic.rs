//! TCP connections and UDP streams between the ends of an emulated network.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use sluice_emu::host::UdpStream;
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;

use super::bench::whole;
use super::control_link::ControlLink;
use super::{Measured, Subject, resolve_network};
use crate::definition::{Axis, Cell, ConnectionSettings, LinkSettings, StreamSettings};
use crate::network::{self, StreamCounts, TestNetwork, messages};

/// Time for what is still on its way after the last packet of a stream, besides two round trips of the control link.
const DRAIN: Duration = Duration::from_secs(2);

/// The settings of a cell.
fn resolve_connection(settings: &ConnectionSettings, cell: &Cell) -> ConnectionSettings {
    let mut resolved = settings.clone();
    resolve_network(&mut resolved.topology, &mut resolved.link, cell);
    resolved
}

/// The same of a stream.
fn resolve_stream(settings: &StreamSettings, cell: &Cell) -> StreamSettings {
    let mut resolved = settings.clone();
    resolve_network(&mut resolved.topology, &mut resolved.link, cell);
    if let Some(rate) = cell.get(&Axis::Rate) {
        resolved.packets_per_s = whole(rate).max(1);
    }
    resolved
}

/// An emulated network that the controller has discovered, and the link to it.
struct ConnectedNetwork<'t> {
    network: TestNetwork<'t>,
    /// The first and the last host.
    ends: (usize, usize),
    /// A round trip of the control link.
    round_trip: Duration,
    /// Closed after the network.
    _link: ControlLink,
}

impl<'t> ConnectedNetwork<'t> {
    fn open(
        topology: &str,
        link: &LinkSettings,
        n_buffers: u32,
        subject: &Subject<'_>,
        is_interrupted: &'t dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let topology = Topology::from_text(topology).map_err(|error| error.to_string())?;
        let ends = network::end_hosts(&topology)?;
        let control_link = ControlLink::open(link, subject.target)?;
        let switch = EmulatedSwitchConfig {
            n_buffers: usize::try_from(n_buffers).unwrap_or(usize::MAX),
            ..network::switch_config(subject.version)
        };
        let target = control_link.target();
        let mut network = TestNetwork::connect(target, topology, switch, is_interrupted)?;
        network.wait_for_discovery()?;
        let round_trip = 2 * Duration::try_from_secs_f64(link.delay_ms / 1e3).unwrap_or_default();
        Ok(Self { network, ends, round_trip, _link: control_link })
    }

    /// Waits until the controller has reacted to everything. Forgets what was recorded.
    fn settle(&mut self) -> Result<(), String> {
        self.network.run_for(2 * self.round_trip)?;
        self.network.wait_for_silence()?;
        self.network.clear();
        Ok(())
    }

    /// Packet-ins and flow entries since [`settle`](Self::settle), without those of discovery.
    fn control_load(&self) -> (usize, usize) {
        let recorded = &self.network.messages;
        let packet_ins = recorded.iter().filter_map(messages::packet_in);
        let packet_ins = packet_ins.filter(|it| !messages::is_discovery_frame(it.frame)).count();
        (packet_ins, recorded.iter().filter(|it| messages::is_flow_entry(it)).count())
    }
}

/// Opens two connections one after the other between hosts that have never sent anything before.
#[expect(clippy::cast_precision_loss, reason = "a number of messages is far below 2^53")]
pub(super) fn measure_connection(
    settings: &ConnectionSettings,
    cell: &Cell,
    subject: &mut Subject<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    let settings = resolve_connection(settings, cell);
    let ConnectionSettings { topology, link, n_buffers, timeout_s } = &settings;
    let mut connected =
        ConnectedNetwork::open(topology, link, *n_buffers, subject, is_interrupted)?;
    let timeout = Duration::try_from_secs_f64(*timeout_s).unwrap_or_default();
    let mut measured = Measured::default();
    for name in ["first", "second"] {
        connected.settle()?;
        subject.controller.observe();
        let ends = connected.ends;
        let result = connected.network.open_connection(ends, timeout)?;
        let established = result.and_then(|result| result.established);
        let time = established.filter(|time| *time <= timeout);
        let key = format!("{name}_connection_s");
        measured.set(&key, time.map_or(*timeout_s, |time| time.as_secs_f64()));
        if time.is_none() {
            measured.lower_bounds.push(key);
        }
        let (packet_ins, flow_entries) = connected.control_load();
        measured.set(&format!("{name}_packet_ins"), packet_ins as f64);
        measured.set(&format!("{name}_flow_entries"), flow_entries as f64);
    }
    if measured.lower_bounds.len() == 2 {
        return Err(format!("no connection was established within {timeout_s} s"));
    }
    measured.warnings.extend(connected.network.connection_warning());
    Ok(measured)
}

/// What has arrived of a stream of `packets`.
#[expect(clippy::cast_precision_loss, reason = "a number of packets is far below 2^53")]
fn stream_figures(counts: StreamCounts, packets: u64) -> Result<Measured, String> {
    let StreamCounts { sent, received, duplicates, reordered } = counts;
    if sent == 0 {
        return Err("no packet of the stream was sent".to_owned());
    }
    let mut measured = Measured::default();
    if sent < packets {
        measured.warnings.push(format!(
            "only {sent} of {packets} packets of the stream were sent in time: the emulated network was too slow"
        ));
    }
    let lost = sent.saturating_sub(received) as f64;
    measured.set("lost", lost / sent as f64);
    measured.set("lost_packets", lost);
    measured.set("duplicates", duplicates as f64);
    measured.set("reordered", reordered as f64);
    Ok(measured)
}

/// Sends a stream between hosts that have announced themselves, but have never exchanged a packet.
#[expect(clippy::cast_precision_loss, reason = "a number of packets is far below 2^53")]
pub(super) fn measure_stream(
    settings: &StreamSettings,
    cell: &Cell,
    subject: &mut Subject<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    let settings = resolve_stream(settings, cell);
    let StreamSettings { topology, link, n_buffers, packets_per_s, packet_bytes, seconds } =
        &settings;
    let mut connected =
        ConnectedNetwork::open(topology, link, *n_buffers, subject, is_interrupted)?;
    let (from, to) = connected.ends;
    connected.network.announce([from, to])?;
    connected.settle()?;
    subject.controller.observe();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: at most a day"
    )]
    let packets = ((f64::from(*packets_per_s) * seconds) as u64).max(1);
    let stream = UdpStream {
        to: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        port: 0,
        rate_pps: *packets_per_s,
        packets,
        data_len: usize::try_from(*packet_bytes).unwrap_or(usize::MAX),
    };
    let drain = DRAIN + 2 * connected.round_trip;
    let counts = connected.network.send_stream((from, to), &stream, drain)?;
    let (packet_ins, flow_entries) = connected.control_load();
    let mut measured = stream_figures(counts, packets)?;
    measured.warnings.extend(connected.network.connection_warning());
    measured.set("stream_packet_ins", packet_ins as f64);
    measured.set("stream_flow_entries", flow_entries as f64);
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_which_nothing_was_sent_has_lost_nothing_and_measured_nothing() {
        let none = StreamCounts { sent: 0, received: 0, duplicates: 0, reordered: 0 };
        assert_eq!(stream_figures(none, 100), Err("no packet of the stream was sent".to_owned()));
        let half = StreamCounts { sent: 50, received: 40, ..none };
        let measured = stream_figures(half, 100).unwrap();
        assert!((measured.figures["lost"] - 0.2).abs() < 1e-9);
        assert!(measured.warnings.concat().starts_with("only 50 of 100 packets"));
        // A controller that sends packets back twice.
        let twice = StreamCounts { sent: 50, received: 50, duplicates: 50, reordered: 0 };
        let measured = stream_figures(twice, 50).unwrap();
        assert!(measured.figures["lost"].abs() < 1e-9 && measured.warnings.is_empty());
        assert!((measured.figures["duplicates"] - 50.0).abs() < 1e-9);
    }
}
