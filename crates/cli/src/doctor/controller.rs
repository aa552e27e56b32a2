//! The controller that runs on this machine, as its API shows it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::Value;

use super::report::Finding;

const CHECK: &str = "controller";

/// Reads a path of the API at an address.
pub(super) type Get<'g> = &'g dyn Fn(SocketAddr, &str) -> Result<String, String>;

/// Asks the controller whose API is at `address`; `None` if it has no API.
pub(super) fn check(get: Get<'_>, address: Option<SocketAddr>) -> Vec<Finding> {
    let Some(address) = address.map(reachable) else {
        let message = "the API is switched off, so a running controller is not asked";
        return vec![Finding::ok(CHECK, message)];
    };
    let body = match get(address, "/v1/controller") {
        Ok(body) => body,
        Err(error) => {
            return vec![Finding::warning(
                CHECK,
                format!("no controller answers at http://{address}: {error}"),
                "start it with `sluice run`, or say where its API is with --api",
            )];
        }
    };
    let document: Option<Value> = serde_json::from_str(&body).ok();
    let Some((version, switches)) = document.as_ref().and_then(|document| {
        Some((document.get("version")?.as_str()?, document.get("switches")?.as_u64()?))
    }) else {
        return vec![Finding::problem(
            CHECK,
            format!("http://{address} is not the API of a controller of this version"),
            "say where it is with --api, or update the controller",
        )];
    };
    let mut findings =
        vec![Finding::ok(CHECK, format!("version {version} answers at http://{address}"))];
    if version != env!("CARGO_PKG_VERSION") {
        findings.push(Finding::warning(
            CHECK,
            format!("it is version {version}, this program is {}", env!("CARGO_PKG_VERSION")),
            "restart it, so that it is the installed version",
        ));
    }
    findings.push(match switches {
        0 => Finding::warning(
            CHECK,
            "no switch is connected",
            "see the lines about Open vSwitch, and docs/troubleshooting.md",
        ),
        1 => Finding::ok(CHECK, "1 switch is connected"),
        more => Finding::ok(CHECK, format!("{more} switches are connected")),
    });
    findings
}

/// The address at which something that listens on `address` is reached from this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
