//! Generates `docs/openflow.md`, the page that lists what is supported in each version.

use core::fmt::Write as _;
use std::path::PathBuf;

use super::codec::{Choice, ChoiceRow, NETRONOME, NICIRA, ONF};
use super::random_tests::ALL_CHOICES;
use super::set_action::SET_ROWS;
use super::{
    Action, ErrorNumbers, ErrorRow, FieldId, Instruction, MaskSupport, Message, MultipartReply,
    MultipartRequest, Stat,
};
use crate::{MessageType, Version};

const VERSIONS: [Version; 6] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

const INTRODUCTION: &str = "\
# OpenFlow reference

What the crate `sluice-openflow`, and with it Sluice, parses and encodes in OpenFlow 1.0 to 1.5: messages, multipart
messages, instructions, actions, match fields, counters, properties and error codes.

How to read the tables:

- There is a column for each version. A number is the type or code in that version; an empty cell means that the version
  does not have it.
- `NX`, `ONF` and `NTR` mark extensions of Nicira (which Open vSwitch implements), the Open Networking Foundation and
  Netronome, with their own numbers.
- Encoding something that the version does not have is an error that names it. Types and codes that are not listed are
  parsed as `other`, and encoded unchanged.
- Names are those of the JSON output of `sluice decode`.

The page is generated from the tables of the codec; `SLUICE_BLESS=1 cargo test -p sluice-openflow --lib support_page`
updates it.
";

const ACTIONS_NOTE: &str = "
The actions of 1.0 and 1.1 that set a single field (`set_dl_src`, `set_nw_src` and others) are parsed as `set_field`; where
a version has no `set_field`, it is encoded as one of them.
";

const FIELDS_NOTE: &str = "
## Match fields

- *Masks*: `any` if the specification allows masks, `Open vSwitch` if only Open vSwitch does.
- *Since*: the first version whose match can contain the field. Matches of Nicira's messages can contain it in any version.
- *Requires*: what the match must contain besides (prerequisites).
- *Headers*: the names of its OXM and NXM headers.
- *Specified in*: a section of OpenFlow 1.3.5 unless another version is named; `meta-flow` is `lib/meta-flow.xml` of
  Open vSwitch.

| field | bits | masks | since | requires | headers | specified in |
| --- | --- | --- | --- | --- | --- | --- |
";

/// A type or code, with the extension that it belongs to.
fn number(code: u64) -> String {
    let extensions = [(NICIRA, "NX"), (ONF, "ONF"), (NETRONOME, "NTR")];
    for bits in [32, 16] {
        if let Some((_, extension)) =
            extensions.iter().find(|(id, _)| code >> bits == u64::from(*id))
        {
            return format!("{extension} {}", code & ((1 << bits) - 1));
        }
    }
    if code > 0xff { format!("{code:#x}") } else { code.to_string() }
}

/// A heading, and the header of a table with a column for each version.
fn table_head(page: &mut String, title: &str, first: &str) {
    let versions = VERSIONS.map(|version| version.to_string()).join(" | ");
    write!(page, "\n## {title}\n\n| {first} | {versions} |\n").unwrap();
    let separators = first.split('|').map(|_| "---").chain(VERSIONS.map(|_| "---"));
    writeln!(page, "| {} |", separators.collect::<Vec<_>>().join(" | ")).unwrap();
}

/// A row of a table; `cells` gives the text for a version.
fn table_row(page: &mut String, first: &str, cells: impl Fn(Version) -> Option<String>) {
    let cells = VERSIONS.map(|version| cells(version).unwrap_or_default()).join(" | ");
    writeln!(page, "| {first} | {cells} |").unwrap();
}

fn choices(page: &mut String, rows: &[ChoiceRow]) {
    for row in rows {
        table_row(page, &format!("`{}`", row.name), |version| (row.code)(version).map(number));
    }
}

fn messages(page: &mut String) {
    table_head(page, "Messages", "message");
    for row in Message::ROWS {
        table_row(page, &format!("`{}`", row.name), |version| {
            let code = (row.code)(version)?;
            let kind = u16::try_from(code).map(MessageType);
            Some(kind.map_or_else(|_| number(code), |kind| kind.to_wire(version).to_string()))
        });
    }
}

fn fields(page: &mut String) {
    page.push_str(FIELDS_NOTE);
    for row in FieldId::ROWS {
        let masks = match row.masks {
            MaskSupport::No => "",
            MaskSupport::Nicira => "Open vSwitch",
            MaskSupport::Any => "any",
        };
        let requires = row.prerequisites.iter().map(|condition| format!("`{condition}`"));
        let headers = row.headers.iter().map(|header| format!("`{}`", header.name));
        let list = |all: Vec<String>| all.join(", ");
        writeln!(
            page,
            "| `{}` | {} | {masks} | {} | {} | {} | {} |",
            row.name,
            row.bits,
            row.since,
            list(requires.collect()),
            list(headers.collect()),
            row.section
        )
        .unwrap();
    }
}

fn errors(page: &mut String) {
    table_head(page, "Error codes", "type | code");
    for row in ErrorRow::all() {
        let kind = row.reason.kind();
        let kind = kind.name().map_or_else(|| kind.0.to_string(), str::to_owned);
        table_row(page, &format!("`{kind}` | `{}`", row.name), |version| {
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

/// Number of rows that `version` has.
fn count(rows: &[ChoiceRow], version: Version) -> usize {
    rows.iter().filter(|row| (row.code)(version).is_some()).count()
}

/// The table with the number of items of each kind.
fn summary(page: &mut String) {
    table_head(page, "Summary", "number of");
    let main = [
        ("messages", Message::ROWS),
        ("multipart requests", MultipartRequest::ROWS),
        ("multipart replies", MultipartReply::ROWS),
        ("instructions", Instruction::ROWS),
    ];
    for (what, rows) in main {
        table_row(page, what, |version| Some(count(rows, version).to_string()));
    }
    table_row(page, "actions", |version| {
        let sets = SET_ROWS.iter().filter(|row| row.version == version).count();
        Some((count(Action::ROWS, version) + sets).to_string())
    });
    table_row(page, "properties and similar parts", |version| {
        let others = ALL_CHOICES.iter().filter(|(what, _)| !is_main(what));
        Some(others.map(|(_, rows)| count(rows, version)).sum::<usize>().to_string())
    });
    table_row(page, "match fields", |version| {
        Some(FieldId::ROWS.iter().filter(|row| row.since <= version).count().to_string())
    });
    table_row(page, "error codes", |version| {
        Some(
            ErrorRow::all().iter().filter(|row| row.numbers(version).is_some()).count().to_string(),
        )
    });
}

/// Whether the set has a section of its own before the properties.
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

/// Heading for a set of alternatives; most names of sets are singular.
fn section_title(what: &str) -> String {
    let mut title = what.replace('_', " ");
    title[..1].make_ascii_uppercase();
    match title.strip_suffix("property") {
        Some(start) => format!("{start}properties"),
        None => format!("{title}s"),
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    summary(&mut page);
    messages(&mut page);
    table_head(&mut page, "Multipart messages", "body of requests and replies");
    choices(&mut page, MultipartRequest::ROWS);
    table_head(&mut page, "Instructions", "instruction");
    choices(&mut page, Instruction::ROWS);
    table_head(&mut page, "Actions", "action");
    choices(&mut page, Action::ROWS);
    for row in SET_ROWS.iter().filter(|row| row.version == Version::V1_0) {
        set_action(&mut page, row.name);
    }
    for row in SET_ROWS.iter().filter(|row| row.version == Version::V1_1) {
        if !SET_ROWS.iter().any(|old| old.version == Version::V1_0 && old.name == row.name) {
            set_action(&mut page, row.name);
        }
    }
    page.push_str(ACTIONS_NOTE);
    fields(&mut page);
    page.push_str("\n## Counters of flow entries\n\nSpecified in OpenFlow 1.5.1 §7.2.4.\n\n");
    page.push_str("| counter | number | bytes |\n| --- | --- | --- |\n");
    for row in Stat::ROWS {
        writeln!(page, "| `{}` | {} | {} |", row.name, row.number, row.bytes).unwrap();
    }
    for (what, rows) in ALL_CHOICES.iter().filter(|(what, _)| !is_main(what)) {
        table_head(&mut page, &section_title(what), "name");
        choices(&mut page, rows);
    }
    errors(&mut page);
    page
}

/// A row for an action of 1.0 or 1.1 that sets a single field.
fn set_action(page: &mut String, name: &str) {
    table_row(page, &format!("`{name}`"), |version| {
        let row = SET_ROWS.iter().find(|row| (row.version, row.name) == (version, name))?;
        Some(number(row.code))
    });
}

#[test]
fn the_readme_has_the_summary_of_the_page() {
    let mut table = String::new();
    summary(&mut table);
    let table = table.split_once("\n\n| ").unwrap().1;
    let readme = include_str!("../../README.md");
    assert!(readme.contains(table), "README.md is not up to date; the table is now\n{table}");
}

#[test]
fn the_page_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openflow.md");
    // The published crate does not contain the page.
    if !path.parent().is_some_and(std::path::Path::is_dir) {
        return;
    }
    if std::env::var_os("SLUICE_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(current == page(), "docs/openflow.md: run with SLUICE_BLESS=1 to update it");
}

#[test]
fn multipart_requests_and_replies_have_the_same_types() {
    let types = |rows: &[ChoiceRow]| -> Vec<_> {
        rows.iter().map(|row| (row.name, VERSIONS.map(row.code))).collect()
    };
    assert_eq!(types(MultipartRequest::ROWS), types(MultipartReply::ROWS));
}
