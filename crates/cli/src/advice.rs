//! What to do about it: one sentence for each thing that keeps the controller from starting.

use std::fs;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use sluice_engine::StartError;
use sluice_io::{cores, limits};

/// Where the system lists the congestion controls it has, and those that everyone may use.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const CONGESTION_FOR_ALL: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Why the engine did not start, and what to do.
pub(crate) fn start(error: &StartError) -> String {
    let advice = match error {
        StartError::Listen(at, e) => listen(*at, e, "--listen"),
        StartError::Pin(..) => {
            let cores: Vec<_> = cores::allowed().iter().map(usize::to_string).collect();
            format!("choose from {} with --pin, or bind to none with --pin off", cores.join(", "))
        }
        StartError::Congestion(name, e) => congestion(name, e),
        StartError::Io(e) => files_or(e, "look at `ulimit -a` for what this user may have"),
    };
    format!("{error}; {advice}")
}

/// Why metrics cannot be served at `at`, and what to do.
pub(crate) fn api(at: SocketAddr, error: &Error) -> String {
    let advice = listen(at, error, "--api");
    format!("cannot serve metrics on {at}: {error}; {advice}, or do without by --no-api")
}

/// Why the system does not let us `do_what`, and what to do.
pub(crate) fn needed(do_what: &str, error: &Error) -> String {
    let advice = files_or(error, "look at `ulimit -a` for what this user may have");
    format!("cannot {do_what}: {error}; {advice}")
}

/// Too few file descriptors, and what to do.
pub(crate) fn files(wanted: u64, allowed: u64) -> String {
    format!(
        "only {allowed} files may be open where {wanted} may be needed: raise the limit (`ulimit -n {wanted}`, \
         LimitNOFILE= of systemd), or lower limits.switches_max and limits.handshakes_max"
    )
}

fn congestion(name: &str, error: &Error) -> String {
    let list = |path| fs::read_to_string(path).unwrap_or_default().trim().replace(' ', ", ");
    if error.kind() == ErrorKind::PermissionDenied {
        let known = list(CONGESTION_FOR_ALL);
        return format!(
            "set socket.congestion to system or one of {known}, or let everyone use it with \
             `sysctl net.ipv4.tcp_allowed_congestion_control=...`"
        );
    }
    let known = list(CONGESTION);
    let otherwise =
        format!("set socket.congestion to system or one of {known}, or try `modprobe tcp_{name}`");
    files_or(error, &otherwise)
}

fn listen(at: SocketAddr, error: &Error, flag: &str) -> String {
    let port = at.port();
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "stop what has the port (`ss -ltnp 'sport = :{port}'` shows it) or choose another with {flag}"
        ),
        ErrorKind::PermissionDenied => {
            format!(
                "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose another with {flag}"
            )
        }
        ErrorKind::AddrNotAvailable => {
            format!("choose an address of this machine (`ip address` shows them) with {flag}")
        }
        _ => files_or(error, &format!("choose another address with {flag}")),
    }
}

fn files_or(error: &Error, otherwise: &str) -> String {
    limits::remedy(error).unwrap_or(otherwise).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_one_sentence_with_what_to_do() {
        let at = "127.0.0.1:8653".parse().unwrap();
        assert_eq!(
            api(at, &ErrorKind::AddrInUse.into()),
            "cannot serve metrics on 127.0.0.1:8653: address in use; stop what has the port \
             (`ss -ltnp 'sport = :8653'` shows it) or choose another with --api, or do without by --no-api"
        );
    }
}
