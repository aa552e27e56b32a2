//! Error messages of the start, each with what to do about it.

use std::fs;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use sluice_engine::{StartError, Transport};
use sluice_io::{UringError, cores, limits};
use sluice_northbound::ListenError;

/// Lists the congestion controls of the system.
const AVAILABLE_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Lists the congestion controls that users without privileges may choose.
const ALLOWED_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Why the engine did not start, and what to do.
pub(crate) fn engine_start(error: &StartError) -> String {
    let advice = match error {
        StartError::Listen(endpoint, e) => {
            let keys = match endpoint.transport {
                Transport::Tcp => "--listen",
                Transport::Tls => "--tls-listen or in `tls.listeners`",
            };
            listen(endpoint.addr, e, keys)
        }
        StartError::Pin(..) => {
            let cores: Vec<_> = cores::allowed().iter().map(usize::to_string).collect();
            format!("choose from {} with --pin, or use --pin off", cores.join(", "))
        }
        StartError::Congestion(name, e) => congestion(name, e),
        StartError::Io(e) | StartError::Uring(UringError::Io(e)) => remedy_or(e, CHECK_LIMITS),
        StartError::SharedReads => {
            "use --engine epoll or uring, or switch on `optimisations.run_to_completion`".to_owned()
        }
        StartError::Uring(_) => "or use --engine epoll".to_owned(),
        StartError::SynFilter(_) => "or set limits.syn_filter = false".to_owned(),
        StartError::InKernel(_) => {
            "use --engine epoll, or --engine auto, which falls back to it".to_owned()
        }
    };
    format!("{error}; {advice}")
}

/// Why the API cannot be served on `address`, and what to do.
pub(crate) fn tcp_api_listener(address: SocketAddr, error: &Error) -> String {
    let advice = listen(address, error, "--api");
    format!("cannot serve the API on {address}: {error}; {advice}, or use --no-api")
}

/// Why the API cannot be served, and what to do.
pub(crate) fn api_listener(listen: Option<SocketAddr>, error: &ListenError) -> String {
    match (&error.socket, listen) {
        (Some(path), _) => format!(
            "cannot serve the API on the Unix socket {}: {} (`api.socket`)",
            path.display(),
            error.error
        ),
        (None, Some(address)) => tcp_api_listener(address, &error.error),
        (None, None) => error.error.to_string(),
    }
}

/// Why the system does not let the process do `action`, and what to do.
pub(crate) fn cannot(action: &str, error: &Error) -> String {
    format!("cannot {action}: {error}; {}", remedy_or(error, CHECK_LIMITS))
}

/// The warning that too few files may be open, and what to do.
pub(crate) fn open_files(wanted: usize, allowed: usize) -> String {
    format!(
        "at most {allowed} files may be open, {wanted} may be needed, so fewer switches and handshakes are accepted: raise the limit (`ulimit -n {wanted}`, or \
         LimitNOFILE= of systemd), or lower limits.switches_max and limits.handshakes_max"
    )
}

const CHECK_LIMITS: &str = "check the limits of this user with `ulimit -a`";

fn congestion(name: &str, error: &Error) -> String {
    let list = |path| fs::read_to_string(path).unwrap_or_default().trim().replace(' ', ", ");
    if error.kind() == ErrorKind::PermissionDenied {
        let known = list(ALLOWED_CONGESTION);
        return format!(
            "set socket.congestion to system or one of {known}, or allow it for all users with \
             `sysctl net.ipv4.tcp_allowed_congestion_control=...`"
        );
    }
    let known = list(AVAILABLE_CONGESTION);
    let fallback =
        format!("set socket.congestion to system or one of {known}, or try `modprobe tcp_{name}`");
    remedy_or(error, &fallback)
}

fn listen(address: SocketAddr, error: &Error, flag: &str) -> String {
    let port = address.port();
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "stop the program that uses the port (`ss -ltnp 'sport = :{port}'` shows it) or choose another port with {flag}"
        ),
        ErrorKind::PermissionDenied => format!(
            "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose another port with {flag}"
        ),
        ErrorKind::AddrNotAvailable => {
            format!("choose an address of this machine (`ip address` shows them) with {flag}")
        }
        _ => remedy_or(error, &format!("choose another address with {flag}")),
    }
}

/// The remedy for a system error, or `fallback`.
fn remedy_or(error: &Error, fallback: &str) -> String {
    limits::remedy(error).unwrap_or(fallback).to_owned()
}

#[cfg(test)]
mod tests {
    use sluice_engine::Endpoint;

    use super::*;

    #[test]
    fn a_port_in_use_is_reported_with_what_to_do() {
        let address = "127.0.0.1:8653".parse().unwrap();
        assert_eq!(
            tcp_api_listener(address, &ErrorKind::AddrInUse.into()),
            "cannot serve the API on 127.0.0.1:8653: address in use; stop the program that uses the port \
             (`ss -ltnp 'sport = :8653'` shows it) or choose another port with --api, or use --no-api"
        );
    }

    #[test]
    fn the_advice_about_a_tls_port_in_use_names_the_keys_of_tls_listeners() {
        let error = |transport| {
            let endpoint = Endpoint { addr: "127.0.0.1:6654".parse().unwrap(), transport };
            engine_start(&StartError::Listen(endpoint, ErrorKind::AddrInUse.into()))
        };
        let tls = error(Transport::Tls);
        assert!(
            tls.starts_with("cannot listen on 127.0.0.1:6654 (TLS): address in use; "),
            "{tls}"
        );
        assert!(
            tls.ends_with("choose another port with --tls-listen or in `tls.listeners`"),
            "{tls}"
        );
        assert!(error(Transport::Tcp).ends_with("choose another port with --listen"));
    }
}
