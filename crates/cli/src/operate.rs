//! `sluice link`, `port`, `clear` and `capture`: operations on the network of a running controller.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal as _, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};
use sluice_io::clock;

use crate::api_client::{ApiArgs, ApiClient, of_port, of_switch};

/// How often a drained link is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct PortArg {
    /// Name or datapath id of the switch
    switch: String,
    /// Number or name of the port
    port: String,
}

#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    #[command(flatten)]
    api: ApiArgs,
    #[command(subcommand)]
    command: LinkCommand,
}

#[derive(Debug, Subcommand)]
enum LinkCommand {
    /// Take a link out of service: move its paths to other links without losing a packet
    Drain(DrainArgs),
    /// Put a link back into service
    Undrain(PortArg),
}

#[derive(Debug, Args)]
struct DrainArgs {
    #[command(flatten)]
    at: PortArg,
    /// Return at once, and not when nothing uses the link any more
    #[arg(long)]
    no_wait: bool,
    /// Seconds to wait at most
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=86_400))]
    timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct PortArgs {
    #[command(flatten)]
    api: ApiArgs,
    #[command(subcommand)]
    command: PortCommand,
}

#[derive(Debug, Subcommand)]
enum PortCommand {
    /// Set a port administratively up
    Up(PortArg),
    /// Set a port administratively down
    Down(PortArg),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(crate) struct ClearArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Name or datapath id of the switch; all if none is given
    switch: Option<String>,
    /// Entries of this application: forwarding, limiter, topology, all
    #[arg(long, group = "which")]
    owner: Option<String>,
    /// Entries with this cookie, as NUMBER or NUMBER/MASK
    #[arg(long, group = "which")]
    cookie: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Only of this switch, by name or datapath id
    #[arg(long)]
    switch: Option<String>,
    /// Only from this port of the switch, by number or name
    #[arg(long, requires = "switch")]
    port: Option<String>,
    /// Only of this Ethernet type: arp, ipv4, ipv6, lldp, or a number such as 0x0800
    #[arg(long)]
    ethertype: Option<String>,
    /// Only from or to this Ethernet address
    #[arg(long)]
    mac: Option<String>,
    /// Only from or to this IP address
    #[arg(long)]
    ip: Option<String>,
    /// Only one in N of the packets that the other options select
    #[arg(long, value_name = "N")]
    sample: Option<String>,
    /// End after N packets
    #[arg(long, value_name = "N")]
    limit: Option<String>,
    /// End after this time; at most 3600
    #[arg(long)]
    seconds: Option<String>,
    /// Print JSON, one object in each line, instead of pcapng
    #[arg(long)]
    json: bool,
    /// Write to this file instead of standard output
    #[arg(long, short = 'w', value_name = "FILE")]
    write: Option<PathBuf>,
}

impl LinkArgs {
    /// What is to be printed.
    pub(crate) fn run(&self) -> Result<String, String> {
        let client = self.api.client()?;
        match &self.command {
            LinkCommand::Drain(drain) => drain.run(&client),
            LinkCommand::Undrain(at) => undrain(at, &client),
        }
    }
}

impl DrainArgs {
    /// Takes the link out of service, and waits.
    fn run(&self, client: &ApiClient) -> Result<String, String> {
        let path = of_port(&self.at.switch, &self.at.port, "/drain");
        let mut drain = client.send_json(&Method::PUT, &path, &[], None)?;
        if self.no_wait {
            return Ok(describe(&drain));
        }
        let deadline: Instant = clock::now() + Duration::from_secs(self.timeout);
        while drain.pointer("/state").and_then(Value::as_str) != Some("drained") {
            if clock::now() >= deadline {
                let state = describe(&drain);
                return Err(format!("not drained after {} s: {}", self.timeout, state.trim_end()));
            }
            clock::sleep(POLL_INTERVAL);
            drain = client.get_json(&path, &[])?;
        }
        Ok(describe(&drain))
    }
}

fn undrain(at: &PortArg, client: &ApiClient) -> Result<String, String> {
    let path = of_port(&at.switch, &at.port, "/drain");
    let reply = client.send_json(&Method::DELETE, &path, &[], None)?;
    let was_drained = reply.pointer("/was_drained").and_then(Value::as_bool) == Some(true);
    Ok(if was_drained { "back in service\n" } else { "was in service\n" }.to_owned())
}

impl PortArgs {
    pub(crate) fn run(&self) -> Result<String, String> {
        let (at, is_up) = match &self.command {
            PortCommand::Up(at) => (at, true),
            PortCommand::Down(at) => (at, false),
        };
        let path = of_port(&at.switch, &at.port, "");
        let body = json!({ "is_enabled": is_up });
        let reply = self.api.client()?.send_json(&Method::PUT, &path, &[], Some(&body))?;
        let is = |field: &str| reply.pointer(field).and_then(Value::as_bool) == Some(true);
        let state = match (is("/is_enabled"), is("/is_up")) {
            (true, true) => "up",
            (true, false) => "enabled, without a link",
            (false, _) => "administratively down",
        };
        Ok(format!("switch {} port {}: {state}\n", at.switch, at.port))
    }
}

impl ClearArgs {
    pub(crate) fn run(&self) -> Result<String, String> {
        let query = query(&[("owner", self.owner.as_ref()), ("cookie", self.cookie.as_ref())]);
        let path = match &self.switch {
            Some(switch) => of_switch(switch, "flows"),
            None => "/v1/flows".to_owned(),
        };
        let reply = self.api.client()?.send_json(&Method::DELETE, &path, &query, None)?;
        let failed = reply.pointer("/switches").and_then(Value::as_array).into_iter().flatten();
        let failed: Vec<_> = failed
            .filter_map(|switch| {
                let error = switch.pointer("/error")?.as_str()?;
                Some(format!("{}: {error}", switch.pointer("/dpid")?.as_str()?))
            })
            .collect();
        let deleted = reply.pointer("/deleted").and_then(Value::as_u64).unwrap_or(0);
        let text = format!("{deleted} flow entries deleted");
        if failed.is_empty() {
            Ok(text + "\n")
        } else {
            Err(format!("{text}; {}", failed.join("; ")))
        }
    }
}

impl CaptureArgs {
    /// Copies the capture to a file or to standard output, until it ends or the reader closes the pipe.
    pub(crate) fn run(&self) -> Result<(), String> {
        if !self.json && self.write.is_none() && std::io::stdout().is_terminal() {
            let to = "`| wireshark -k -i -`, -w FILE or --json";
            return Err(format!("a capture is not written to a terminal: use {to}"));
        }
        let format = (if self.json { "json" } else { "pcapng" }).to_owned();
        let query = query(&[
            ("format", Some(&format)),
            ("switch", self.switch.as_ref()),
            ("port", self.port.as_ref()),
            ("ethertype", self.ethertype.as_ref()),
            ("mac", self.mac.as_ref()),
            ("ip", self.ip.as_ref()),
            ("sample", self.sample.as_ref()),
            ("limit", self.limit.as_ref()),
            ("seconds", self.seconds.as_ref()),
        ]);
        let client = self.api.client()?;
        let mut out = None;
        let mut failure = None;
        client.stream("/v1/capture", &query, &[], |part| match self.write(&mut out, part) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error).filter(|error| error.kind() != ErrorKind::BrokenPipe);
                ControlFlow::Break(())
            }
        })?;
        failure.map_or(Ok(()), |error| Err(format!("cannot write the capture: {error}")))
    }

    /// Writes a part of the capture. The file is made for the first part: a request that is refused leaves an old one as it is.
    fn write(&self, out: &mut Option<Box<dyn Write>>, part: &[u8]) -> std::io::Result<()> {
        let out = match (&mut *out, &self.write) {
            (Some(out), _) => out,
            (none, Some(path)) => none.insert(Box::new(File::create(path)?)),
            (none, None) => none.insert(Box::new(std::io::stdout().lock())),
        };
        out.write_all(part)?;
        out.flush()
    }
}

/// The parts of a query that have a value.
fn query<'a>(pairs: &[(&'a str, Option<&'a String>)]) -> Vec<(&'a str, &'a str)> {
    pairs.iter().filter_map(|&(key, value)| Some((key, value?.as_str()))).collect()
}

/// A drained link for people: its state, and what still uses it.
fn describe(drain: &Value) -> String {
    let ends = drain.pointer("/ends").and_then(Value::as_array);
    let place = |end: &Value| {
        let text = |at: &str| end.pointer(at).and_then(Value::as_str);
        let switch = text("/at/switch").or_else(|| text("/at/dpid")).unwrap_or("?");
        let port = end.pointer("/at/port").map(Value::to_string).unwrap_or_default();
        format!("{} port {port}", crate::show::printable(switch))
    };
    let places: Vec<_> = ends.into_iter().flatten().map(place).collect();
    let state = drain.pointer("/state").and_then(Value::as_str).unwrap_or("?");
    if state == "drained" {
        return format!("{}: drained, nothing uses the link\n", places.join(" to "));
    }
    let uses = |end: &Value| {
        let Some(progress) = end.pointer("/progress").filter(|it| !it.is_null()) else {
            return "nothing is known yet".to_owned();
        };
        let count = |field: &str| progress.pointer(field).and_then(Value::as_u64).unwrap_or(0);
        let (entries, kept) = (count("/entries"), count("/without_alternative"));
        let foreign = count("/foreign_entries");
        let quiet = progress.pointer("/is_quiet").and_then(Value::as_bool) == Some(true);
        let traffic = if quiet { "no traffic" } else { "traffic" };
        format!(
            "{entries} flow entries ({kept} without another path), {foreign} of other owners, {traffic}"
        )
    };
    let ends = ends.into_iter().flatten().map(|end| format!("{}: {}", place(end), uses(end)));
    format!("{}: {state}; {}\n", places.join(" to "), ends.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drained_link_is_described() {
        let end = |switch: &str, entries: u32| {
            let progress = json!({ "entries": entries, "without_alternative": 1,
                "foreign_entries": 0, "is_quiet": false });
            json!({ "at": { "switch": switch, "port": 2 }, "progress": progress })
        };
        let draining = json!({ "state": "draining", "ends": [end("s1", 3), { "at": { "dpid": "02",
            "switch": null, "port": 7 }, "progress": null }] });
        assert_eq!(
            describe(&draining),
            "s1 port 2 to 02 port 7: draining; s1 port 2: 3 flow entries (1 without another path), 0 of other owners, traffic; 02 port 7: nothing is known yet\n"
        );
        let drained = json!({ "state": "drained", "ends": [end("s1", 0), end("s2", 0)] });
        assert_eq!(describe(&drained), "s1 port 2 to s2 port 2: drained, nothing uses the link\n");
    }
}
