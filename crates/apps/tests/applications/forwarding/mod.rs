//! The application `forwarding`, as transcripts. The transcripts state links, port roles and host locations.

mod bundles;
mod connections;
mod flooding;
mod group_streams;
mod large_tables;
mod path_installation;
mod queries;
mod refused_entries;
mod stale_entries;

use sluice_apps::forwarding::{Config, Flooding, Forwarding};
use sluice_testkit::transcript;

/// Three switches in a line, host a at the first, host b at the last.
const LINEAR: &str = "
    link s1:1 s2:1 up
    link s2:2 s3:1 up
    ports s1:3 s1:4 s2:3 s3:3 edge
    host a at s1:3
    host b at s3:3
";

/// A ring of four switches, hosts a and b at opposite switches. The link between s3 and s4 is not up yet.
const RING: &str = "
    link s1:1 s2:1 up
    link s2:2 s3:1 up
    link s4:2 s1:2 up
    ports s1:3 s2:3 s3:3 s4:3 edge
    host a at s1:3
    host b at s3:3
";

const SINGLE_SWITCH: &str = "
    ports s1:1 s1:2 s1:3 edge
    host a at s1:1
    host b at s1:2
";

#[track_caller]
fn run(topology: &str, cfg: &Config, script: &str) {
    transcript(|| Forwarding::new(cfg), &format!("{topology}\n{script}"));
}

#[track_caller]
fn run_with_defaults(topology: &str, script: &str) {
    run(topology, &Config::default(), script);
}

/// With floods by the controller, so that a switch that connects is not asked for entries of a spanning tree.
#[track_caller]
fn run_without_tree(topology: &str, script: &str) {
    let cfg = Config { flooding: Flooding::Controller, ..Config::default() };
    run(topology, &cfg, script);
}
