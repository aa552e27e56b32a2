//! Reads the fields of a match by their types, and checks whether packets match.
//!
//! `cargo run -p sluice-openflow --example match_fields`

#![allow(clippy::print_stdout, reason = "an example")]

use std::net::Ipv4Addr;

use sluice_openflow::Match;
use sluice_openflow::text::TextError;

fn main() -> Result<(), TextError> {
    let matching: Match = "in_port=3,tcp,nw_dst=10.0.0.0/24,tp_dst=80".parse()?;

    // Exactly matched fields have their value, of the proper type.
    println!("port {:?}, TCP port {:?}", matching.in_port(), matching.tcp_dst());
    assert_eq!(matching.tcp_dst(), Some(80));

    // Masked fields have a value and a mask.
    assert_eq!(matching.ipv4_dst(), None);
    if let Some(network) = matching.masked().ipv4_dst() {
        for address in [Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(10, 0, 1, 7)] {
            println!("{address} in {network}: {}", network.matches(address));
        }
    }

    // A match that a switch would refuse says what is missing.
    let incomplete: Match = Match { fields: matching.fields.into_iter().skip(3).collect() };
    if let Err(error) = incomplete.check() {
        println!("{incomplete}: {error}");
    }
    Ok(())
}
