//! Controllers of whole networks that know the topology, each with its own way to install a path.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use sluice_bench::paths::{Directions, NetworkPlan};
use sluice_bench::{Plan, Report};
use sluice_emu::topology::{PortRef, Topology};
use sluice_io::sock;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, Encoder, Ethernet, Field, FlowMod, GroupCommand, GroupId, GroupMod, GroupType,
    Instruction, MacAddr, Message, MessageType, PacketOut, PortNo, SwitchFeatures, Version,
    split_message,
};

/// A message to a switch, by index.
pub(crate) type ToSwitch = (usize, Message);

/// What a controller sends for a packet-in.
pub(crate) type Answer = fn(&Routes, &Packet) -> Vec<ToSwitch>;

/// What it sends to a switch that has connected.
pub(crate) type Welcome = fn(&Routes, usize) -> Vec<ToSwitch>;

/// A packet-in.
pub(crate) struct Packet {
    pub(crate) switch: usize,
    pub(crate) in_port: PortNo,
    pub(crate) src: MacAddr,
    pub(crate) dst: MacAddr,
    pub(crate) frame: Vec<u8>,
}

/// The topology, and which port leads to which host.
pub(crate) struct Routes {
    pub(crate) topology: Topology,
    pub(crate) version: Version,
}

impl Routes {
    pub(crate) fn host(&self, mac: MacAddr) -> PortRef {
        self.topology.hosts.iter().find(|host| host.mac == mac).unwrap().port
    }

    /// The output ports from a switch to a host, in order; the last is that of the host.
    pub(crate) fn path(&self, from: usize, to: MacAddr) -> Vec<PortRef> {
        let end = self.host(to);
        let mut paths = vec![(from, vec![])];
        let mut visited = vec![from];
        loop {
            let mut longer = vec![];
            for (at, path) in paths {
                if at == end.switch {
                    return [path, vec![end]].concat();
                }
                let links = self.topology.links.iter();
                for (here, there) in links.flat_map(|link| [(link.a, link.b), (link.b, link.a)]) {
                    if here.switch == at && !visited.contains(&there.switch) {
                        visited.push(there.switch);
                        longer.push((there.switch, [path.clone(), vec![here]].concat()));
                    }
                }
            }
            paths = longer;
        }
    }

    /// Output ports in both directions of the path between the hosts of a packet.
    pub(crate) fn both(&self, p: &Packet) -> [(MacAddr, MacAddr, Vec<PortRef>); 2] {
        [(p.src, p.dst), (p.dst, p.src)]
            .map(|(src, dst)| (src, dst, self.path(self.host(src).switch, dst)))
    }
}

/// A controller on a free port that sends `welcome` to each switch and `answer` for each unicast packet-in. It runs until
/// the test ends.
pub(crate) fn controller(
    shape: &str,
    version: Version,
    welcome: Welcome,
    answer: Answer,
) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let topology = Topology::from_text(shape).unwrap();
    let streams: Vec<_> = topology.switches.iter().map(|_| OnceLock::new()).collect();
    let streams: Arc<Vec<OnceLock<Mutex<TcpStream>>>> = Arc::new(streams);
    let routes = Arc::new(Routes { topology, version });
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (streams, routes) = (Arc::clone(&streams), Arc::clone(&routes));
            thread::spawn(move || serve(stream, &streams, &routes, welcome, answer));
        }
    });
    addr
}

fn serve(
    mut stream: TcpStream,
    streams: &[OnceLock<Mutex<TcpStream>>],
    routes: &Routes,
    welcome: Welcome,
    answer: Answer,
) {
    stream.set_nodelay(true).unwrap();
    let (mut rx, mut buf, mut switch) = (Vec::new(), vec![0; 1 << 16], usize::MAX);
    while let Ok(len @ 1..) = stream.read(&mut buf) {
        rx.extend_from_slice(&buf[..len]);
        let mut used = 0;
        while let Some((msg, rest)) = split_message(&rx[used..]).unwrap() {
            used = rx.len() - rest.len();
            match msg.kind() {
                MessageType::HELLO => {
                    let (mut tx, mut xid) = (vec![], 1);
                    let mut out = Encoder::new(&mut tx, routes.version, &mut xid);
                    out.raw_message(MessageType::HELLO, 1, &[]).unwrap();
                    out.features_request();
                    stream.write_all(&tx).unwrap();
                }
                MessageType::FEATURES_REPLY => {
                    let Ok(Message::FeaturesReply(SwitchFeatures { datapath_id, .. })) =
                        Message::parse_raw(msg)
                    else {
                        panic!("the features are valid")
                    };
                    switch = usize::try_from(datapath_id.0).unwrap() - 1;
                    streams[switch].set(Mutex::new(stream.try_clone().unwrap())).unwrap();
                    send(streams, routes.version, welcome(routes, switch));
                }
                MessageType::PACKET_IN => {
                    let p = PacketIn::new(msg).unwrap();
                    let eth = Ethernet::new(p.frame).unwrap();
                    let (in_port, frame) = (p.in_port, p.frame.to_vec());
                    let p = Packet { switch, in_port, src: eth.src, dst: eth.dst, frame };
                    if !p.dst.is_group() {
                        send(streams, routes.version, answer(routes, &p));
                    }
                }
                MessageType::ERROR => panic!("{:?}", Message::parse_raw(msg)),
                _ => {}
            }
        }
        rx.drain(..used);
    }
}

fn send(streams: &[OnceLock<Mutex<TcpStream>>], version: Version, messages: Vec<ToSwitch>) {
    for (switch, message) in messages {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
        // The bench may have ended.
        if let Some(stream) = streams[switch].get() {
            let _ = stream.lock().unwrap().write_all(&tx);
        }
    }
}

/// A short measurement of paths through `shape`.
pub(crate) fn plan(
    target: SocketAddr,
    shape: &str,
    version: Version,
    directions: Directions,
) -> Plan {
    let network = NetworkPlan::from_shape(shape, directions).unwrap();
    Plan {
        targets: vec![target],
        version,
        loops: 3,
        loop_time: Duration::from_millis(60),
        // Time for the controller to send its first flow entries, on a busy machine as well.
        delay: Duration::from_millis(500),
        socket: sock::Options::default(),
        ..Plan::for_network(network, 1)
    }
}

/// Measures the controller `welcome` and `answer` with three switches in a line and four hosts on each.
pub(crate) fn measure(
    version: Version,
    directions: Directions,
    welcome: Welcome,
    answer: Answer,
) -> Report {
    const SHAPE: &str = "linear,3,4";
    let target = controller(SHAPE, version, welcome, answer);
    sluice_bench::run(&plan(target, SHAPE, version, directions), &mut ()).unwrap()
}

/// Sends packets without a matching flow entry of the first table to the controller.
pub(crate) fn misses_to_controller(routes: &Routes, switch: usize) -> Vec<ToSwitch> {
    let miss = Message::FlowMod(FlowMod::table_miss(u16::MAX));
    if routes.version < Version::V1_3 { vec![] } else { vec![(switch, miss)] }
}

/// A flow entry of the first table.
pub(crate) fn entry(fields: &[Field], instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        matching: fields.iter().copied().collect(),
        instructions,
        priority: 10,
        idle_timeout: 60,
        ..FlowMod::default()
    }
}

/// Output to a port.
pub(crate) fn output(port: PortNo) -> Vec<Instruction> {
    vec![Instruction::apply([Action::output(port)])]
}

/// A message that adds a flow entry to the switch of `at`.
pub(crate) fn add(at: &PortRef, flow_mod: FlowMod) -> ToSwitch {
    (at.switch, Message::FlowMod(flow_mod))
}

/// Sends the packet out of a port.
pub(crate) fn packet_out(at: &PortRef, p: &Packet) -> ToSwitch {
    let in_port = if at.switch == p.switch { p.in_port } else { PortNo::CONTROLLER };
    let packet_out = PacketOut {
        buffer_id: None,
        matching: [Field::in_port(in_port)].into(),
        actions: vec![Action::output(at.port)],
        data: p.frame.clone(),
    };
    (at.switch, Message::PacketOut(packet_out))
}

/// Installs flow entries for both addresses on the whole path, in both directions, and then sends the packet to its
/// destination.
pub(crate) fn install_pairs(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
    install(routes, p, |src, dst| vec![Field::eth_src(src), Field::eth_dst(dst)])
}

/// The same with flow entries that match the destination only.
pub(crate) fn install_destinations(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
    install(routes, p, |_, dst| vec![Field::eth_dst(dst)])
}

/// Flow entries of the whole path, in both directions, with the match that `fields` makes of source and destination; then
/// the packet.
pub(crate) fn install(
    routes: &Routes,
    p: &Packet,
    fields: fn(MacAddr, MacAddr) -> Vec<Field>,
) -> Vec<ToSwitch> {
    let mut messages = vec![];
    for (src, dst, path) in routes.both(p) {
        messages.extend(path.iter().map(|at| add(at, entry(&fields(src, dst), output(at.port)))));
    }
    messages.push(packet_out(&routes.host(p.dst), p));
    messages
}

/// Installs a flow entry on the switch of the packet-in only, and sends the packet on from there.
pub(crate) fn install_one_hop(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
    let at = routes.path(p.switch, p.dst)[0];
    let fields = [Field::eth_src(p.src), Field::eth_dst(p.dst)];
    vec![add(&at, entry(&fields, output(at.port))), packet_out(&at, p)]
}

/// The number of the group that sends to a port.
pub(crate) fn group_of(port: PortNo) -> GroupId {
    GroupId(100 + port.0)
}

/// One group for each port of a switch.
pub(crate) fn groups(routes: &Routes, switch: usize) -> Vec<ToSwitch> {
    let group = |n| {
        let bucket = sluice_openflow::Bucket {
            actions: vec![Action::output(PortNo(n))],
            ..sluice_openflow::Bucket::default()
        };
        let group_mod = GroupMod {
            command: GroupCommand::ADD,
            group_type: GroupType::INDIRECT,
            group_id: group_of(PortNo(n)),
            buckets: vec![bucket],
            ..GroupMod::default()
        };
        (switch, Message::GroupMod(group_mod))
    };
    let ports = 1..=routes.topology.switches[switch].n_ports;
    misses_to_controller(routes, switch).into_iter().chain(ports.map(group)).collect()
}
