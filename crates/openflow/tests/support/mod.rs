//! Golden messages: foreign bytes, what we read in them, and why some are not written again as they came.

#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod ofctl;
pub(crate) mod said;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// One golden message.
#[derive(Debug)]
pub(crate) struct Golden {
    /// File name without its ending.
    pub(crate) name: String,
    /// The message.
    pub(crate) bytes: Vec<u8>,
    /// Why it is not written again byte by byte, if it is not.
    pub(crate) rewritten: Option<String>,
    /// What `Message::parse_raw` makes of it, as it stands in the file, in one line.
    pub(crate) debug: String,
    path: PathBuf,
    comments: Vec<String>,
}

const ORIGIN: &str = "# origin: ";
const REWRITTEN: &str = "# rewritten: ";
const RULE: &str = "---";

impl Golden {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let (head, debug) = text.split_once(RULE).unwrap_or((&text, ""));
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

    /// Writes the file again with `debug` as what is expected.
    pub(crate) fn bless(&self, debug: &str) {
        let mut text = String::new();
        for comment in &self.comments {
            writeln!(text, "{comment}").unwrap();
        }
        for line in self.bytes.chunks(16) {
            let line: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{}", line.join(" ")).unwrap();
        }
        writeln!(text, "{RULE}").unwrap();
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
        // Other tests read the file while this one writes it.
        let new = self.path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &self.path).unwrap();
    }
}

/// All golden messages, in the order of their names.
pub(crate) fn all() -> Vec<Golden> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension() == Some("hex".as_ref())).collect();
    files.sort();
    files.iter().map(|path| Golden::read(path)).collect()
}
