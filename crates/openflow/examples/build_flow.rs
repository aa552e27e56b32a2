//! Builds a flow entry and encodes it in several versions of OpenFlow; a version that cannot express it says so.
//!
//! `cargo run -p sluice-openflow --example build_flow`

#![allow(clippy::print_stdout, reason = "an example")]

use sluice_openflow::text::TextError;
use sluice_openflow::{Action, Field, FlowMod, FlowModFlags, Instruction, PortNo, Version};

fn main() -> Result<(), TextError> {
    let web = [
        Field::eth_type(0x0800),
        Field::ip_proto(6),
        Field::ipv4_dst([10, 0, 0, 0].into()).with_prefix(24),
        Field::tcp_dst(80),
    ];
    let mut flow = FlowMod {
        priority: 100,
        idle_timeout: 60,
        flags: FlowModFlags::SEND_FLOW_REM,
        ..FlowMod::add(web, [Action::output(PortNo(2))])
    };
    println!("{flow}");
    // The syntax of `ovs-ofctl` is another way to build it.
    let parsed: FlowMod = flow.to_string().parse()?;
    assert_eq!(parsed.to_string(), flow.to_string());

    flow.instructions.push(Instruction::GotoTable { table_id: 1 });
    for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
        match flow.to_vec(version, 1) {
            Ok(bytes) => println!("{version}: {} bytes", bytes.len()),
            Err(error) => println!("{version}: {error}"),
        }
    }
    Ok(())
}
