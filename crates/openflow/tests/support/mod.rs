//! Golden files: messages of other implementations, and what this crate parses from them.

#![allow(dead_code, reason = "not every test uses all of these helpers")]

pub(crate) mod golden_message;
pub(crate) mod ofctl;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A file `tests/golden/*.hex` with one message.
#[derive(Debug)]
pub(crate) struct GoldenFile {
    /// File name without extension.
    pub(crate) name: String,
    /// The message.
    pub(crate) bytes: Vec<u8>,
    /// Why encoding the parsed message gives different bytes, if it does.
    pub(crate) rewritten: Option<String>,
    /// The parsed message as the file has it: `Debug` output on one line.
    pub(crate) debug: String,
    path: PathBuf,
    comments: Vec<String>,
}

const ORIGIN: &str = "# origin: ";
const REWRITTEN: &str = "# rewritten: ";
const SEPARATOR: &str = "---";

impl GoldenFile {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let (head, debug) = text.split_once(SEPARATOR).unwrap_or((&text, ""));
        let comments: Vec<_> =
            head.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect();
        let hex = head.lines().filter(|line| !line.starts_with('#'));
        let bytes = hex
            .flat_map(str::split_whitespace)
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        assert!(
            comments.iter().any(|line| line.starts_with(ORIGIN)),
            "{} has no origin",
            path.display()
        );
        let rewritten = comments.iter().find_map(|line| line.strip_prefix(REWRITTEN));
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            rewritten: rewritten.map(str::to_owned),
            bytes,
            debug: debug.split_whitespace().collect::<Vec<_>>().join(" "),
            path: path.to_owned(),
            comments,
        }
    }

    /// Rewrites the file with `debug` as the expected output.
    pub(crate) fn bless(&self, debug: &str) {
        let mut text = String::new();
        for comment in &self.comments {
            writeln!(text, "{comment}").unwrap();
        }
        for line in self.bytes.chunks(16) {
            let line: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{}", line.join(" ")).unwrap();
        }
        writeln!(text, "{SEPARATOR}").unwrap();
        let mut column = 0;
        for word in debug.split_whitespace() {
            let gap = if column == 0 {
                ""
            } else if column + word.len() < 100 {
                " "
            } else {
                "\n"
            };
            column = if gap == "\n" { word.len() } else { column + gap.len() + word.len() };
            write!(text, "{gap}{word}").unwrap();
        }
        text.push('\n');
        // Written to a new file first, since other tests may be reading the old one.
        let new = self.path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &self.path).unwrap();
    }
}

/// All `tests/golden/*.hex`, sorted by name.
pub(crate) fn golden_files() -> Vec<GoldenFile> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension() == Some("hex".as_ref())).collect();
    files.sort();
    files.iter().map(|path| GoldenFile::read(path)).collect()
}
