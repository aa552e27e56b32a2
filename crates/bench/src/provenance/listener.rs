//! Finds the process that listens on an address.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluice_io::sock;

/// State `TCP_LISTEN` in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The process that listens on `target`: the newest if several share the socket. `None` if it is on another machine or in another
/// network namespace, belongs to another user, or is this process.
pub(super) fn process_listening_on(target: SocketAddr) -> Option<u32> {
    if !sock::is_local(target.ip()) {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let tables = tables.into_iter().flatten();
    let mut listeners: Vec<_> = tables.flat_map(|table| listeners(&table, target)).collect();
    // A socket bound to the address itself receives its connections, not the one bound to all addresses.
    listeners.sort_by_key(|&(_, is_wildcard)| is_wildcard);
    listeners.into_iter().find_map(|(inode, _)| process_with_socket(inode))
}

/// The newest process, other than this one, that has the socket `inode`.
fn process_with_socket(inode: u64) -> Option<u32> {
    let link = format!("socket:[{inode}]");
    let has_socket = |pid: u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|to| to.as_os_str() == &*link)
    };
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| pid != std::process::id() && has_socket(pid)).max()
}

/// Inodes of the sockets that listen on `target` in the text of `/proc/net/tcp` or `/proc/net/tcp6`, and whether they are bound to
/// all addresses.
fn listeners(table: &str, target: SocketAddr) -> Vec<(u64, bool)> {
    let one = |line: &str| {
        // Number, local address, remote address, state, queues, timer, retransmissions, user, timeout, inode.
        let mut fields = line.split_whitespace().skip(1);
        let (ip, port) = parse_address(fields.next()?)?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?.parse().ok()?;
        let is_wildcard = ip.is_unspecified() && (ip.is_ipv6() || target.is_ipv4());
        let is_listening = state == LISTEN && port == target.port();
        let is_for_target = is_wildcard || ip.to_canonical() == target.ip().to_canonical();
        (is_listening && is_for_target).then_some((inode, is_wildcard))
    };
    table.lines().filter_map(one).collect()
}

/// An address such as `0100007F:19FD`: words of 32 bits in the byte order of the machine, and the port.
fn parse_address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = ip.get(at..at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of `/proc/net/tcp` with the local addresses `local`, in states `states`; inodes are 100, 101, …
    fn table(sockets: &[(&str, &str)]) -> String {
        let heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        let queues = "00000000:00000000 00:00000000 00000000     0        0";
        let line = |(n, (local, state)): (usize, &(&str, &str))| {
            format!("   {n}: {local} 00000000:0000 {state} {queues} {} 1 0 100 0 0 10 0", 100 + n)
        };
        let lines = sockets.iter().enumerate().map(line);
        [heading.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// The bytes of an address as the kernel prints them on this machine.
    fn printed(ip: &str, port: u16) -> String {
        let bytes = match ip.parse().unwrap() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let words = bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
        let words: Vec<_> = words.map(|word| format!("{word:08X}")).collect();
        format!("{}:{port:04X}", words.concat())
    }

    #[test]
    fn listening_sockets_are_found_by_address_and_port() {
        let locals = [
            printed("127.0.0.1", 6653),
            printed("0.0.0.0", 6653),
            printed("127.0.0.1", 6633),
            printed("127.0.0.1", 6653),
            printed("10.0.0.1", 6653),
        ];
        let states = ["0A", "0A", "0A", "01", "0A"];
        let sockets: Vec<_> = locals.iter().map(String::as_str).zip(states).collect();
        let found = listeners(&table(&sockets), "127.0.0.1:6653".parse().unwrap());
        assert_eq!(found, [(100, false), (101, true)]);
    }

    #[test]
    fn a_socket_of_ipv6_listens_for_ipv4_too() {
        let locals = [printed("::", 6653), printed("::ffff:127.0.0.1", 6653), printed("::1", 6653)];
        let sockets: Vec<_> = locals.iter().map(|local| (local.as_str(), "0A")).collect();
        let table = table(&sockets);
        let found = |target: &str| listeners(&table, target.parse().unwrap());
        assert_eq!(found("127.0.0.1:6653"), [(100, true), (101, false)]);
        assert_eq!(found("[::1]:6653"), [(100, true), (102, false)]);
        assert_eq!(found("[::1]:6654"), []);
    }

    #[test]
    fn malformed_tables_give_nothing() {
        let target = "127.0.0.1:6653".parse().unwrap();
        for text in
            ["", "x", "0: 0100007F:19FD", "0: 0100007F 0 0A 0 0 0 0 0 1", "0: ä:ä 0 0A 0 0 0 0 0 1"]
        {
            assert_eq!(listeners(text, target), [], "{text}");
        }
        assert_eq!(parse_address("ääää:19FD"), None);
    }
}
