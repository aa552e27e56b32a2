//! Flows, groups and meters that nobody would write: whatever is read comes back from its text, and a fault points into the line.

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

/// What lines are made of.
const GRAMMAR: &str = include_str!("texts.txt");

/// Lines of each kind that are tried, the same ones every time.
const LINES: u32 = 20_000;

/// Where the dice begin. `LINES` and `SEED` in the environment have others tried.
const SEED: u64 = 0x5eed;

/// How deep the parts of a line are chosen freely.
const DEPTH: u32 = 12;

/// What slips into a line.
const ODD: &[&str] = &[
    "(", ")", "[", "]", ",", ":", "=", "->", "/", "+", "-", "..", "|", "\"", " ", "\t", "\u{b}",
    "\0", "\u{a0}", "é", "0x", "0", "1",
];

/// A linear congruential sequence.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from((self.0 >> 33) % n as u64).unwrap()
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// What each word of the grammar can stand for.
fn grammar() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for line in GRAMMAR.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, stands_for) = line.split_once(' ').unwrap_or((line, ""));
        all.entry(word).or_default().push(stands_for);
    }
    // Of fields that differ by their number alone, the first two are enough.
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

/// Puts in the place of the words in `text` what they stand for.
fn fill(text: &str, words: &BTreeMap<&str, Vec<&str>>, dice: &mut Dice, depth: u32) -> String {
    let (mut line, mut rest) = (String::new(), text);
    while let Some((before, (word, after))) = rest
        .split_once('<')
        .and_then(|(before, tail)| tail.split_once('>').map(|tail| (before, tail)))
    {
        let of = &words[word];
        let chosen = if depth > DEPTH { of[0] } else { dice.one(of) };
        line += before;
        line += &fill(chosen, words, dice, depth + 1);
        rest = after;
    }
    line + rest
}

/// `line` with something put in, or with a part of it left out.
fn odd(line: &str, dice: &mut Dice) -> String {
    let mut chars: Vec<_> = line.chars().collect();
    let at = dice.below(chars.len() + 1);
    match dice.below(12) {
        0 => drop(chars.splice(at..at, dice.one(ODD).chars())),
        1 => drop(chars.drain(at..(at + 1 + dice.below(4)).min(chars.len()).max(at))),
        _ => {}
    }
    chars.into_iter().collect()
}

/// What a line is read as, and to do what.
#[derive(Debug, Clone, Copy)]
enum As {
    Flow(FlowModCommand),
    Group(GroupCommand),
    Meter(MeterCommand),
}

/// Whether `line` is a flow, a group, a meter.
///
/// # Errors
/// What is wrong with how it is read, printed and read again, or refused.
fn hear(line: &str, as_what: As) -> Result<bool, String> {
    let heard = std::panic::catch_unwind(|| match as_what {
        As::Flow(it) => twice(line, |line| FlowMod::from_text(line, it), FlowMod::to_text),
        As::Group(it) => twice(line, |line| GroupMod::from_text(line, it), GroupMod::to_text),
        As::Meter(it) => twice(line, |line| MeterMod::from_text(line, it), MeterMod::to_text),
    });
    heard.unwrap_or_else(|_| Err("it panics".into()))
}

fn twice<T: Debug + PartialEq>(
    line: &str,
    read: impl Fn(&str) -> Result<T, TextError>,
    print: impl Fn(&T) -> String,
) -> Result<bool, String> {
    match read(line) {
        Ok(first) => {
            let text = print(&first);
            match read(&text) {
                Ok(again) if again == first => Ok(true),
                again => Err(format!("{text}\n  {first:?}\n  {again:?}")),
            }
        }
        Err(fault) => {
            let inside = (1..=line.chars().count() + 1).contains(&fault.column);
            let shown = inside && caret(line, &fault).starts_with(line);
            if shown { Ok(false) } else { Err(fault.to_string()) }
        }
    }
}

/// What is left of `line` when all is left out without which it is still wrong.
fn shortest(line: &str, as_what: As) -> String {
    let mut chars: Vec<_> = line.chars().collect();
    let mut len = chars.len() / 2;
    while len > 0 {
        let mut at = 0;
        while at + len <= chars.len() {
            let less: Vec<_> = chars[..at].iter().chain(&chars[at + len..]).copied().collect();
            match hear(&less.iter().collect::<String>(), as_what) {
                Err(_) => chars = less,
                Ok(_) => at += 1,
            }
        }
        len /= 2;
    }
    chars.into_iter().collect()
}

/// Tries lines that `word` stands for; each is read as one of `whats`.
fn try_lines(word: &str, whats: &[As]) {
    let lines: u32 = std::env::var("LINES").map_or(LINES, |n| n.parse().unwrap());
    let seed: u64 = std::env::var("SEED").map_or(SEED, |n| n.parse().unwrap());
    let (words, mut dice) = (grammar(), Dice(seed));
    let (mut wrong, mut read) = (BTreeMap::new(), 0_u32);
    // What panics is told below, in a line of its own.
    std::panic::set_hook(Box::new(|_| {}));
    for _ in 0..lines {
        let as_what = whats[dice.below(whats.len())];
        let line = odd(&fill(word, &words, &mut dice, 0), &mut dice);
        if let Ok(is_one) = hear(&line, as_what) {
            read += u32::from(is_one);
            continue;
        }
        let line = shortest(&line, as_what);
        let what = hear(&line, as_what).unwrap_err();
        wrong.insert((line.len(), line), (as_what, what));
    }
    _ = std::panic::take_hook();
    let told = wrong.iter().take(40).map(|((_, l), (c, w))| format!("\n{c:?} {l}\n  {w}"));
    let told: String = told.collect();
    assert!(wrong.is_empty(), "LINES={lines} SEED={seed}: {} of {read}{told}", wrong.len());
    assert!(read > lines / 20, "of {lines} lines only {read} are what they are meant to be");
}

#[test]
fn whatever_is_read_comes_back_from_its_text() {
    try_lines("<L>", &[0, 1, 2, 3, 4].map(|n| As::Flow(FlowModCommand(n))));
    try_lines("<G>", &[0, 1, 2, 3, 5, 0x8000].map(|n| As::Group(GroupCommand(n))));
    try_lines("<M>", &[0, 1, 2].map(|n| As::Meter(MeterCommand(n))));
}
