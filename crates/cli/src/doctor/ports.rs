//! TCP ports that the controller needs, and the programs that have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Privileges;
use super::machine::Root;
use super::report::Finding;

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListeningSocket {
    address: SocketAddr,
    inode: String,
}

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Checks whether the addresses are free, or held by a controller that runs.
pub(super) fn check(
    root: &Root,
    addresses: &[(&'static str, SocketAddr)],
    user: Privileges,
) -> Vec<Finding> {
    let sockets = listening_sockets(root);
    addresses.iter().map(|(key, address)| check_one(root, &sockets, key, *address, user)).collect()
}

fn check_one(
    root: &Root,
    sockets: &[ListeningSocket],
    key: &str,
    address: SocketAddr,
    user: Privileges,
) -> Finding {
    if address.port() == 0 {
        return Finding::ok("port", format!("{address} ({key}): the system chooses a free port"));
    }
    let Some(socket) = sockets.iter().find(|socket| conflicts(socket.address, address)) else {
        return Finding::ok("port", format!("{address} ({key}) is free"));
    };
    let port = address.port();
    let owners = owners(root, &socket.inode);
    let controller = owners.iter().find(|(pid, _)| is_controller(root, pid));
    match controller.or_else(|| owners.first()) {
        Some((pid, name)) if controller.is_some() => Finding::ok(
            "port",
            format!("{address} ({key}) is used by {name} (process {pid}), which runs"),
        ),
        Some((pid, name)) if pid == "1" && name == "systemd" => Finding::ok(
            "port",
            format!(
                "{address} ({key}) is opened by systemd, which starts a service with the first connection: `systemctl list-sockets` shows it"
            ),
        ),
        Some((pid, name)) => Finding::problem(
            "port",
            format!(
                "{address} ({key}) is used by {name} (process {pid}): the controller cannot start"
            ),
            format!("stop {name}, or choose another port with `{key}`"),
        ),
        None if user == Privileges::User => Finding::needs_root(
            "port",
            format!("{address} ({key}) is used by a program of another user"),
        ),
        None => Finding::problem(
            "port",
            format!("{address} ({key}) is used by a program that this user cannot see"),
            format!(
                "`ss -ltnp 'sport = :{port}'` shows it on the machine itself, outside of a container"
            ),
        ),
    }
}

/// Whether a process is a controller: this program or `sluice`, started with the subcommand `run` or `play`.
fn is_controller(root: &Root, pid: &str) -> bool {
    let command = std::fs::read(root.path(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    let mut words = command.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let file_name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let name = words.next().map(|word| file_name(&word)).unwrap_or_default();
    let subcommand = words.next().unwrap_or_default();
    let own = std::env::args().next().map(|word| file_name(&word));
    (name == "sluice" || Some(name) == own) && ["run", "play"].contains(&&*subcommand)
}

/// Whether a socket that listens on `taken` prevents another one from listening on `wanted`.
fn conflicts(taken: SocketAddr, wanted: SocketAddr) -> bool {
    let is_any = |ip: IpAddr| ip.is_unspecified();
    let is_same_ip = taken.ip().to_canonical() == wanted.ip().to_canonical();
    let covers =
        |wide: IpAddr, narrow: IpAddr| is_any(wide) && (wide.is_ipv6() || narrow.is_ipv4());
    taken.port() == wanted.port()
        && (is_same_ip || covers(taken.ip(), wanted.ip()) || covers(wanted.ip(), taken.ip()))
}

pub(super) fn listening_sockets(root: &Root) -> Vec<ListeningSocket> {
    let of = |path| root.read(path).unwrap_or_default();
    let text = of("/proc/net/tcp") + "\n" + &of("/proc/net/tcp6");
    text.lines().filter_map(parse_line).collect()
}

/// A line of `/proc/net/tcp` or `/proc/net/tcp6`, if it is a listening socket.
fn parse_line(line: &str) -> Option<ListeningSocket> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    (*state == LISTEN).then_some(())?;
    let ip: IpAddr = match ip.len() {
        // Words in the order of the machine, whose bytes are in the order of the network.
        8 => Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.to_ne_bytes()).into(),
        32 => {
            let mut bytes = Vec::with_capacity(16);
            for at in (0..32).step_by(8) {
                let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
                bytes.extend_from_slice(&word.to_ne_bytes());
            }
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()
        }
        _ => return None,
    };
    Some(ListeningSocket { address: SocketAddr::new(ip, port), inode: (*inode).to_owned() })
}

/// The processes that have a socket: their ids and names. systemd keeps those that it passes to services.
fn owners(root: &Root, inode: &str) -> Vec<(String, String)> {
    let wanted = format!("socket:[{inode}]");
    let is_pid = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let owner = |pid: String| {
        let folder = format!("/proc/{pid}/fd");
        let has = root.list(&folder).iter().any(|fd| {
            let target = std::fs::read_link(root.path(format!("{folder}/{fd}")));
            target.is_ok_and(|target| target.as_os_str() == wanted.as_str())
        });
        let name = has.then(|| root.read(&format!("/proc/{pid}/comm")).unwrap_or_default())?;
        Some((pid, name))
    };
    root.list("/proc").into_iter().filter(is_pid).filter_map(owner).collect()
}
