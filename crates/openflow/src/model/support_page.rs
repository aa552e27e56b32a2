//! The page of the book that says what is spoken, read off the rows.

use core::fmt::Write as _;
use std::path::PathBuf;

use super::codec::{Choice, ChoiceRow, NETRONOME, NICIRA, ONF};
use super::random_tests::ALL;
use super::set_action::SET_ROWS;
use super::{
    Action, ErrorNumbers, ErrorRow, FieldId, Instruction, MaskSupport, Message, MultipartReply,
    MultipartRequest, Stat,
};
use crate::{MessageType, Version};

const VERSIONS: [Version; 6] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

const HEAD: &str = "\
# What Sluice speaks

Every message, action, instruction, field, property and error that the crate `sluice-openflow` knows, with its numbers.
This page is read off the rows from which reading and writing are made; a test fails when it is stale, and
`SLUICE_BLESS=1 cargo test -p sluice-openflow --lib speaks` writes it anew.

A number stands in the column of each version that has it. `NX` before a number is Nicira's extension of that number,
`ONF` one of the Open Networking Foundation, `NTR` one of Netronome. What is not in these tables is kept whole and
written again as it came.
";

/// A number on the wire, with whose it is.
fn number(code: u64) -> String {
    let whose = [(NICIRA, "NX"), (ONF, "ONF"), (NETRONOME, "NTR")];
    for bits in [32, 16] {
        if let Some((_, who)) = whose.iter().find(|(id, _)| code >> bits == u64::from(*id)) {
            return format!("{who} {}", code & ((1 << bits) - 1));
        }
    }
    if code > 0xff { format!("{code:#x}") } else { code.to_string() }
}

fn head(page: &mut String, title: &str, first: &str) {
    let versions = VERSIONS.map(|version| version.to_string()).join(" | ");
    write!(page, "\n## {title}\n\n| {first} | {versions} |\n").unwrap();
    let rules = first.split('|').map(|_| "---").chain(VERSIONS.map(|_| "---"));
    writeln!(page, "| {} |", rules.collect::<Vec<_>>().join(" | ")).unwrap();
}

/// One line; a version without a number has a blank.
fn line(page: &mut String, first: &str, cells: impl Fn(Version) -> Option<String>) {
    let cells = VERSIONS.map(|version| cells(version).unwrap_or_default()).join(" | ");
    writeln!(page, "| {first} | {cells} |").unwrap();
}

fn choices(page: &mut String, rows: &[ChoiceRow]) {
    for row in rows {
        line(page, &format!("`{}`", row.name), |version| (row.code)(version).map(number));
    }
}

fn messages(page: &mut String) {
    head(page, "Messages", "message");
    for row in Message::ROWS {
        line(page, &format!("`{}`", row.name), |version| {
            let code = (row.code)(version)?;
            let kind = u16::try_from(code).map(MessageType);
            Some(kind.map_or_else(|_| number(code), |kind| kind.to_wire(version).to_string()))
        });
    }
}

fn fields(page: &mut String) {
    page.push_str(
        "\n## Fields\n\n| field | bits | masks | since | needs | headers | who says so |\n",
    );
    page.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for row in FieldId::ROWS {
        let masks = match row.masks {
            MaskSupport::No => "",
            MaskSupport::Nicira => "Open vSwitch",
            MaskSupport::Any => "any",
        };
        let needs = row.prerequisites.iter().map(|need| format!("`{need}`"));
        let headers = row.headers.iter().map(|header| format!("`{}`", header.name));
        let list = |all: Vec<String>| all.join(", ");
        writeln!(
            page,
            "| `{}` | {} | {masks} | {} | {} | {} | {} |",
            row.name,
            row.bits,
            row.since,
            list(needs.collect()),
            list(headers.collect()),
            row.section
        )
        .unwrap();
    }
}

fn errors(page: &mut String) {
    head(page, "Errors", "type | code");
    for row in ErrorRow::all() {
        let kind = row.reason.kind();
        let kind = kind.name().map_or_else(|| kind.0.to_string(), str::to_owned);
        line(page, &format!("`{kind}` | `{}`", row.name), |version| {
            Some(match row.numbers(version)? {
                ErrorNumbers::Standard(kind, code) => format!("{kind}, {code}"),
                ErrorNumbers::Vendor(_, kind, code) => format!("NX {kind}, {code}"),
                ErrorNumbers::Experimenter(id, code) => {
                    number(u64::from(id) << 32 | u64::from(code))
                }
            })
        });
    }
}

fn in_version(rows: &[ChoiceRow], version: Version) -> usize {
    rows.iter().filter(|row| (row.code)(version).is_some()).count()
}

/// How many there are of each.
fn counts(page: &mut String) {
    head(page, "How much that is", "what");
    let main = [
        ("messages", Message::ROWS),
        ("multipart requests", MultipartRequest::ROWS),
        ("multipart replies", MultipartReply::ROWS),
        ("instructions", Instruction::ROWS),
    ];
    for (what, rows) in main {
        line(page, what, |version| Some(in_version(rows, version).to_string()));
    }
    line(page, "actions", |version| {
        let sets = SET_ROWS.iter().filter(|row| row.version == version).count();
        Some((in_version(Action::ROWS, version) + sets).to_string())
    });
    line(page, "properties and other parts", |version| {
        let others = ALL.iter().filter(|(what, _)| !is_main(what));
        Some(others.map(|(_, rows)| in_version(rows, version)).sum::<usize>().to_string())
    });
    line(page, "fields", |version| {
        Some(FieldId::ROWS.iter().filter(|row| row.since <= version).count().to_string())
    });
    line(page, "errors", |version| {
        Some(
            ErrorRow::all().iter().filter(|row| row.numbers(version).is_some()).count().to_string(),
        )
    });
}

/// Whether there is a table for it above those of properties.
fn is_main(what: &str) -> bool {
    [
        Message::TYPE_NAME,
        MultipartRequest::TYPE_NAME,
        MultipartReply::TYPE_NAME,
        Instruction::TYPE_NAME,
        Action::TYPE_NAME,
    ]
    .contains(&what)
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    counts(&mut page);
    messages(&mut page);
    for (title, rows) in [
        ("Multipart requests", MultipartRequest::ROWS),
        ("Multipart replies", MultipartReply::ROWS),
    ] {
        head(&mut page, title, "body");
        choices(&mut page, rows);
    }
    head(&mut page, "Instructions", "instruction");
    choices(&mut page, Instruction::ROWS);
    head(&mut page, "Actions", "action");
    choices(&mut page, Action::ROWS);
    for row in SET_ROWS.iter().filter(|row| row.version == Version::V1_0) {
        set_action(&mut page, row.name);
    }
    for row in SET_ROWS.iter().filter(|row| row.version == Version::V1_1) {
        if !SET_ROWS.iter().any(|old| old.version == Version::V1_0 && old.name == row.name) {
            set_action(&mut page, row.name);
        }
    }
    page.push_str("\nThose that set one field are `set_field` in the model.\n");
    fields(&mut page);
    page.push_str("\n## Counters of rules\n\nOpenFlow 1.5.1 §7.2.4.\n\n");
    page.push_str("| counter | number | bytes |\n| --- | --- | --- |\n");
    for row in Stat::ROWS {
        writeln!(page, "| `{}` | {} | {} |", row.name, row.number, row.bytes).unwrap();
    }
    for (what, rows) in ALL.iter().filter(|(what, _)| !is_main(what)) {
        let mut title = (*what).to_owned();
        title[..1].make_ascii_uppercase();
        head(&mut page, &title.replace('_', " "), "name");
        choices(&mut page, rows);
    }
    errors(&mut page);
    page
}

/// An action of 1.0 or 1.1 that sets one field.
fn set_action(page: &mut String, name: &str) {
    line(page, &format!("`{name}`"), |version| {
        let row = SET_ROWS.iter().find(|row| (row.version, row.name) == (version, name))?;
        Some(number(row.code))
    });
}

#[test]
fn the_readme_counts_as_the_page_does() {
    let mut table = String::new();
    counts(&mut table);
    let table = table.split_once("\n\n| ").unwrap().1;
    let readme = include_str!("../../README.md");
    assert!(readme.contains(table), "the counts of README.md are stale; now they are\n{table}");
}

#[test]
fn the_page_of_the_book_is_not_stale() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openflow.md");
    // Without the workspace around it the crate has no book.
    if !path.parent().is_some_and(std::path::Path::is_dir) {
        return;
    }
    if std::env::var_os("SLUICE_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let told = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(told == page(), "docs/openflow.md: SLUICE_BLESS=1 if this is meant");
}
