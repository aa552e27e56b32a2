//! Random flow entries, groups and meters in text: what can be parsed survives a roundtrip through its text, and the column
//! of an error is inside the line.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;

use sluice_openflow::text::{TextError, caret};
use sluice_openflow::{
    FieldId, FlowMod, FlowModCommand, GroupCommand, GroupMod, MeterCommand, MeterMod,
};

/// The grammar that generates lines.
const GRAMMAR: &str = include_str!("texts.txt");

/// Number of random lines per kind; the environment variable `LINES` overrides it.
const LINES: u32 = 20_000;

/// Seed of the random lines; the environment variable `SEED` overrides it.
const SEED: u64 = 0x5eed;

/// Nesting level from which the first alternative of a symbol is taken, which ends the recursion.
const DEPTH_MAX: u32 = 12;

/// Text that is inserted into lines at random.
const NOISE: &[&str] = &[
    "(", ")", "[", "]", ",", ":", "=", "->", "/", "+", "-", "..", "|", "\"", " ", "\t", "\u{b}",
    "\0", "\u{a0}", "é", "0x", "0", "1",
];

/// A linear congruential generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from((self.0 >> 33) % n as u64).unwrap()
    }

    fn choose<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// The alternatives of each symbol of the grammar.
fn grammar() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for line in GRAMMAR.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (symbol, alternative) = line.split_once(' ').unwrap_or((line, ""));
        all.entry(symbol).or_default().push(alternative);
    }
    // Of numbered fields (`reg0` to `reg15`), the first two are enough.
    let rows = FieldId::ROWS.iter().filter(|row| !row.name.ends_with(|c| ('2'..='9').contains(&c)));
    let names = |row: &'static sluice_openflow::spec::FieldRow| {
        let headers = row.headers.iter().map(|header| header.name);
        [row.name].into_iter().chain(row.aliases.iter().copied()).chain(headers)
    };
    let mut fields: Vec<_> = rows.flat_map(names).collect();
    fields.extend(["oxm_8000_99", "oxm_0001_30", "oxm_ffff_42_4f4e4600", "oxm_ffff_5_00000001"]);
    all.insert("f", fields);
    all
}

/// Replaces the symbols `<x>` in `text` by random alternatives.
fn expand(text: &str, grammar: &BTreeMap<&str, Vec<&str>>, rng: &mut Rng, depth: u32) -> String {
    let (mut line, mut rest) = (String::new(), text);
    while let Some((before, (symbol, after))) = rest
        .split_once('<')
        .and_then(|(before, tail)| tail.split_once('>').map(|tail| (before, tail)))
    {
        let alternatives = &grammar[symbol];
        let chosen = if depth > DEPTH_MAX { alternatives[0] } else { rng.choose(alternatives) };
        line += before;
        line += &expand(chosen, grammar, rng, depth + 1);
        rest = after;
    }
    line + rest
}

/// Sometimes inserts noise into `line` or deletes a part of it.
fn mutate(line: &str, rng: &mut Rng) -> String {
    let mut chars: Vec<_> = line.chars().collect();
    let at = rng.below(chars.len() + 1);
    match rng.below(12) {
        0 => drop(chars.splice(at..at, rng.choose(NOISE).chars())),
        1 => drop(chars.drain(at..(at + 1 + rng.below(4)).min(chars.len()).max(at))),
        _ => {}
    }
    chars.into_iter().collect()
}

/// The parser for a line, and the command of the message.
#[derive(Debug, Clone, Copy)]
enum Target {
    Flow(FlowModCommand),
    Group(GroupCommand),
    Meter(MeterCommand),
}

/// Parses `line`; returns whether it is valid.
///
/// # Errors
/// If it panics, does not survive a roundtrip, or the column of the error is outside the line.
fn check(line: &str, target: Target) -> Result<bool, String> {
    let result = std::panic::catch_unwind(|| match target {
        Target::Flow(it) => {
            check_roundtrip(line, |line| FlowMod::from_text(line, it), FlowMod::to_text)
        }
        Target::Group(it) => {
            check_roundtrip(line, |line| GroupMod::from_text(line, it), GroupMod::to_text)
        }
        Target::Meter(it) => {
            check_roundtrip(line, |line| MeterMod::from_text(line, it), MeterMod::to_text)
        }
    });
    result.unwrap_or_else(|_| Err("panic".into()))
}

fn check_roundtrip<T: Debug + PartialEq>(
    line: &str,
    parse: impl Fn(&str) -> Result<T, TextError>,
    print: impl Fn(&T) -> String,
) -> Result<bool, String> {
    match parse(line) {
        Ok(first) => {
            let text = print(&first);
            match parse(&text) {
                Ok(again) if again == first => Ok(true),
                again => Err(format!("{text}\n  {first:?}\n  {again:?}")),
            }
        }
        Err(error) => {
            let is_inside = (1..=line.chars().count() + 1).contains(&error.column);
            let is_shown = is_inside && caret(line, &error).starts_with(line);
            if is_shown { Ok(false) } else { Err(error.to_string()) }
        }
    }
}

/// Shortens `line` as far as it still fails.
fn minimise(line: &str, target: Target) -> String {
    let mut chars: Vec<_> = line.chars().collect();
    let mut len = chars.len() / 2;
    while len > 0 {
        let mut at = 0;
        while at + len <= chars.len() {
            let less: Vec<_> = chars[..at].iter().chain(&chars[at + len..]).copied().collect();
            match check(&less.iter().collect::<String>(), target) {
                Err(_) => chars = less,
                Ok(_) => at += 1,
            }
        }
        len /= 2;
    }
    chars.into_iter().collect()
}

/// Checks random lines from `symbol`, each with one of `targets`.
fn check_random_lines(symbol: &str, targets: &[Target]) {
    let lines: u32 = std::env::var("LINES").map_or(LINES, |n| n.parse().unwrap());
    let seed: u64 = std::env::var("SEED").map_or(SEED, |n| n.parse().unwrap());
    let (grammar, mut rng) = (grammar(), Rng(seed));
    let (mut failed, mut valid) = (BTreeMap::new(), 0_u32);
    // Panics are reported below, with the line.
    std::panic::set_hook(Box::new(|_| {}));
    for _ in 0..lines {
        let target = targets[rng.below(targets.len())];
        let line = mutate(&expand(symbol, &grammar, &mut rng, 0), &mut rng);
        if let Ok(is_valid) = check(&line, target) {
            valid += u32::from(is_valid);
            continue;
        }
        let line = minimise(&line, target);
        let failure = check(&line, target).unwrap_err();
        failed.insert((line.len(), line), (target, failure));
    }
    _ = std::panic::take_hook();
    let report = failed
        .iter()
        .take(40)
        .map(|((_, line), (target, failure))| format!("\n{target:?} {line}\n  {failure}"));
    let report: String = report.collect();
    assert!(failed.is_empty(), "LINES={lines} SEED={seed}: {} failed{report}", failed.len());
    assert!(valid > lines / 20, "only {valid} of {lines} lines are valid");
}

#[test]
fn everything_that_can_be_parsed_survives_a_roundtrip_through_its_text() {
    check_random_lines("<L>", &[0, 1, 2, 3, 4].map(|n| Target::Flow(FlowModCommand(n))));
    check_random_lines("<G>", &[0, 1, 2, 3, 5, 0x8000].map(|n| Target::Group(GroupCommand(n))));
    check_random_lines("<M>", &[0, 1, 2].map(|n| Target::Meter(MeterCommand(n))));
}
