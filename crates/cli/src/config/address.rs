//! Addresses as they are written in the configuration: `127.0.0.1:6653`, `[::1]:6653`, `localhost:6653`, `:6653` or `6653`.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};

use sluice_base::sort_by_key;

/// The addresses that `text` means on this machine, IPv4 first. A port alone has the address `port_alone`.
///
/// # Errors
/// Why `text` is invalid or cannot be resolved.
pub(super) fn resolve(text: &str, port_alone: IpAddr) -> Result<Vec<SocketAddr>, String> {
    let addresses = parse(text, port_alone, |name, port| {
        (name, port).to_socket_addrs().map(Iterator::collect)
    })?;
    // A name may resolve to an address family that is disabled here. If no address is usable, opening the socket
    // gives the error.
    let usable: Vec<_> =
        addresses.iter().copied().filter(|address| is_local(address.ip())).collect();
    Ok(if usable.is_empty() { addresses } else { usable })
}

/// [`resolve`] with a function that resolves names.
fn parse(
    text: &str,
    port_alone: IpAddr,
    resolve_name: impl FnOnce(&str, u16) -> io::Result<Vec<SocketAddr>>,
) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    if let Ok(port) = text.parse() {
        return Ok(vec![SocketAddr::new(port_alone, port)]);
    }
    let invalid = |why: &str| {
        format!(
            "invalid address \"{text}\" ({why}; expected 127.0.0.1:6653, [::1]:6653, localhost:6653 or 6653)"
        )
    };
    if !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()) {
        return Err(invalid("the port is not a number from 0 to 65535"));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(invalid("it has no port"));
    };
    if host.contains(':') && !host.starts_with('[') {
        return Err(invalid("an IPv6 address is written in brackets"));
    }
    let port = port.parse().map_err(|_| invalid("the port is not a number from 0 to 65535"))?;
    if host.is_empty() {
        return Ok(vec![SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)]);
    }
    let resolved =
        resolve_name(host, port).map_err(|e| format!("cannot resolve \"{host}\": {e}"))?;
    let mut addresses = Vec::new();
    for address in resolved {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    sort_by_key(&mut addresses, SocketAddr::is_ipv6);
    if addresses.is_empty() { Err(format!("\"{host}\" has no address")) } else { Ok(addresses) }
}

/// Whether this machine has `ip`.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Parses with a resolver that knows only the name `switches`.
    fn parsed(text: &str) -> Result<String, String> {
        let resolve_name = |name: &str, port| match name {
            "switches" => {
                let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port);
                Ok(vec![v6, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), v6])
            }
            _ => Err(io::Error::other("unknown name")),
        };
        let addresses = parse(text, Ipv4Addr::LOCALHOST.into(), resolve_name)?;
        Ok(addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn an_address_may_be_a_name_or_a_port_alone() {
        for (text, addresses) in [
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("[::1]:2", "[::1]:2"),
            (":6653", "[::]:6653"),
            ("6653", "127.0.0.1:6653"),
            ("switches:6653", "127.0.0.1:6653 [::1]:6653"),
        ] {
            assert_eq!(parsed(text).unwrap(), addresses);
        }
    }

    #[test]
    fn an_invalid_address_is_rejected_with_the_reason() {
        for (text, why) in [
            ("localhost", "it has no port"),
            ("switches:port", "the port is not a number from 0 to 65535"),
            ("70000", "the port is not a number from 0 to 65535"),
            ("::1:6653", "an IPv6 address is written in brackets"),
        ] {
            let expected = "expected 127.0.0.1:6653, [::1]:6653, localhost:6653 or 6653";
            let error = format!("invalid address \"{text}\" ({why}; {expected})");
            assert_eq!(parsed(text).unwrap_err(), error);
        }
        assert_eq!(parsed("nowhere:1").unwrap_err(), "cannot resolve \"nowhere\": unknown name");
    }

    #[test]
    fn localhost_is_this_machine() {
        let addresses = resolve("localhost:6653", Ipv6Addr::UNSPECIFIED.into()).unwrap();
        assert!(!addresses.is_empty());
        assert!(
            addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 6653),
            "{addresses:?}"
        );
    }
}
