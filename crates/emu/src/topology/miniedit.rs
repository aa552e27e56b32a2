//! Files of Mininet's editor `MiniEdit`: JSON with lists of hosts, switches and links.
//!
//! Settings that do not affect the emulation are ignored: canvas positions, schedulers, directories, controllers.

use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sluice_base::HashMap;
use sluice_openflow::DatapathId;

use super::{ErrorLocation, NodeRef, Topology, TopologyBuilder, TopologyError, TopologyErrorKind};
use crate::link::{DELAY_MAX, JITTER_MAX, LinkImpairments, LossRatio, RATE_MAX};

#[derive(Debug, Deserialize)]
struct MiniEditFile {
    #[serde(default)]
    hosts: Vec<MiniEditHost>,
    switches: Vec<MiniEditSwitch>,
    #[serde(default)]
    links: Vec<MiniEditLink>,
}

#[derive(Debug, Deserialize)]
struct MiniEditHost {
    opts: HostOptions,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostOptions {
    hostname: String,
    ip: Option<String>,
}

#[derive(Debug, Deserialize)]
struct MiniEditSwitch {
    opts: SwitchOptions,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SwitchOptions {
    hostname: String,
    node_num: Option<Value>,
    dpid: Option<String>,
    switch_type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct MiniEditLink {
    src: String,
    dest: String,
    #[serde(default)]
    opts: LinkOptions,
}

/// Values are numbers or strings, depending on the editor's version.
#[derive(Debug, Deserialize, Default)]
struct LinkOptions {
    bw: Option<Value>,
    delay: Option<Value>,
    jitter: Option<Value>,
    loss: Option<Value>,
}

pub(super) fn parse(contents: &str) -> Result<Topology, TopologyError> {
    let file: MiniEditFile = serde_json::from_str(contents).map_err(|e| {
        let line = u32::try_from(e.line()).unwrap_or(u32::MAX);
        // The line is reported separately.
        let why = e.to_string();
        let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
        TopologyErrorKind::Malformed(why.into()).at(ErrorLocation::Line(line))
    })?;
    let mut b = TopologyBuilder::new();
    let mut nodes = HashMap::default();
    for (n, MiniEditSwitch { opts }) in file.switches.into_iter().enumerate() {
        let at = |fault: TopologyErrorKind| fault.at(ErrorLocation::Entry("switches", n + 1));
        if matches!(opts.switch_type.as_deref(), Some("legacySwitch" | "legacyRouter")) {
            return Err(at(TopologyErrorKind::NotOpenFlow(opts.hostname)));
        }
        let datapath_id = datapath_id(&opts).map_err(at)?;
        let node = b.add_switch(opts.hostname.as_str(), datapath_id).map_err(at)?;
        nodes.insert(opts.hostname, node);
    }
    for (n, MiniEditHost { opts }) in file.hosts.into_iter().enumerate() {
        let at = |fault: TopologyErrorKind| fault.at(ErrorLocation::Entry("hosts", n + 1));
        let ipv4 = opts.ip.as_deref().filter(|ip| !ip.is_empty()).map(address).transpose();
        let node = b.add_host(opts.hostname.as_str(), ipv4.map_err(at)?).map_err(at)?;
        nodes.insert(opts.hostname, node);
    }
    for (n, link) in file.links.iter().enumerate() {
        let at = |fault: TopologyErrorKind| fault.at(ErrorLocation::Entry("links", n + 1));
        let node = |name: &String| -> Result<NodeRef, TopologyErrorKind> {
            nodes.get(name).copied().ok_or_else(|| TopologyErrorKind::UnknownNode(name.clone()))
        };
        let (src, dest) = (node(&link.src).map_err(at)?, node(&link.dest).map_err(at)?);
        let shape = shape(&link.opts).map_err(at)?;
        b.add_link(src, dest, shape).map_err(at)?;
    }
    b.build().map_err(TopologyErrorKind::without_location)
}

/// The datapath id in the file; else the number in the name, as Mininet does; else the node number.
fn datapath_id(opts: &SwitchOptions) -> Result<DatapathId, TopologyErrorKind> {
    if let Some(text) = opts.dpid.as_deref().filter(|text| !text.is_empty()) {
        let digits = text.replace(':', "");
        let id = u64::from_str_radix(&digits, 16);
        return id
            .map(DatapathId)
            .map_err(|_| TopologyErrorKind::InvalidValue("a datapath id", text.into()));
    }
    let after = opts.hostname.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    let number = digits.parse().ok().or_else(|| text(opts.node_num.as_ref()?)?.parse().ok());
    number
        .map(DatapathId)
        .ok_or(TopologyErrorKind::MissingElement("dpid, and the name contains no number"))
}

fn address(text: &str) -> Result<Ipv4Addr, TopologyErrorKind> {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse().map_err(|_| TopologyErrorKind::InvalidValue("an IPv4 address", text.into()))
}

fn shape(opts: &LinkOptions) -> Result<LinkImpairments, TopologyErrorKind> {
    let delay = time(opts.delay.as_ref(), DELAY_MAX)?;
    let jitter = time(opts.jitter.as_ref(), JITTER_MAX)?;
    let mbps = number(opts.bw.as_ref(), "a bandwidth in Mbit/s")?.unwrap_or_default();
    let rate_bps = NonZeroU64::new(whole(mbps * 1e6).min(RATE_MAX));
    let loss = number(opts.loss.as_ref(), "a loss in percent")?.unwrap_or_default();
    if loss > 100.0 {
        return Err(TopologyErrorKind::InvalidValue("a loss in percent", loss.to_string()));
    }
    let loss = LossRatio::from_ppm(u32::try_from(whole(loss * 1e4)).unwrap_or(u32::MAX));
    Ok(LinkImpairments { delay, jitter, rate_bps, loss, queue_bytes: None })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is known to be finite and not negative; what is too large becomes the largest"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn number(value: Option<&Value>, what: &'static str) -> Result<Option<f64>, TopologyErrorKind> {
    let Some(text) = value.and_then(text) else { return Ok(None) };
    let number = text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
    number.map(Some).ok_or(TopologyErrorKind::InvalidValue(what, text))
}

/// A time in the syntax of `tc`: `5ms`, `1s`, `100us`; microseconds without a unit.
fn time(value: Option<&Value>, max: Duration) -> Result<Duration, TopologyErrorKind> {
    let Some(text) = value.and_then(text) else { return Ok(Duration::ZERO) };
    let (digits, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
    let unit = match unit {
        "" | "us" | "usec" | "usecs" => Some(1e-6),
        "ms" | "msec" | "msecs" => Some(1e-3),
        "s" | "sec" | "secs" => Some(1.0),
        _ => None,
    };
    let seconds = unit.zip(digits.trim().parse::<f64>().ok()).map(|(unit, n)| unit * n);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|&time| time <= max)
        .ok_or(TopologyErrorKind::InvalidValue("a time of at most 60s", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(contents: &str) -> String {
        parse(contents).unwrap_err().to_string()
    }

    const TWO: &str = r#""switches": [{"opts": {"hostname": "s1"}}, {"opts": {"hostname": "s2"}}]"#;

    #[test]
    fn errors_are_reported_with_their_line_or_entry() {
        assert_eq!(
            error("{\n\"switches\": 3\n}"),
            "line 2: invalid type: integer `3`, expected a sequence"
        );
        assert_eq!(error("{\n\n"), "line 3: EOF while parsing an object");
        let link = |link: &str| format!("{{{TWO}, \"links\": [{link}]}}");
        assert_eq!(
            error(&link(r#"{"src": "s1", "dest": "s7"}"#)),
            "links, entry 1: unknown node \"s7\""
        );
        let with = |opts: &str| link(&format!(r#"{{"src": "s1", "dest": "s2", "opts": {opts}}}"#));
        assert_eq!(
            error(&with(r#"{"delay": "5 weeks"}"#)),
            "links, entry 1: \"5 weeks\" is not a time of at most 60s"
        );
        assert_eq!(
            error(&with(r#"{"bw": -1}"#)),
            "links, entry 1: \"-1\" is not a bandwidth in Mbit/s"
        );
        assert_eq!(
            error(&with(r#"{"loss": "101"}"#)),
            "links, entry 1: \"101\" is not a loss in percent"
        );
        let twice = r#"{"switches": [{"opts": {"hostname": "s1"}}, {"opts": {"hostname": "t1"}}]}"#;
        assert_eq!(error(twice), "switches, entry 2: duplicate datapath id 0000000000000001");
        let router =
            r#"{"switches": [{"opts": {"hostname": "r1", "switchType": "legacyRouter"}}]}"#;
        assert_eq!(
            error(router),
            "switches, entry 1: r1 is not an OpenFlow switch (legacy switches and routers are not supported)"
        );
    }

    #[test]
    fn times_have_the_syntax_of_tc() {
        let read = |text: &str| time(Some(&Value::from(text)), DELAY_MAX).unwrap();
        assert_eq!(read("5ms"), Duration::from_millis(5));
        assert_eq!(read("0.5s"), Duration::from_millis(500));
        assert_eq!(read("250"), Duration::from_micros(250));
        assert_eq!(time(Some(&Value::from(7)), DELAY_MAX).unwrap(), Duration::from_micros(7));
        assert_eq!(time(None, DELAY_MAX).unwrap(), Duration::ZERO);
    }
}
