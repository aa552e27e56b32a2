//! The file with the hashes of tokens.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_io::input_file::{self, FileKinds};

use super::Token;

/// Tokens in one file: each request compares its token with all of them.
pub const TOKENS_MAX: usize = 1024;

/// The largest file.
const FILE_BYTES_MAX: usize = 1 << 20;

/// How long reading it may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Permissions that the file must not have: others could add a token, or learn who has one.
const FORBIDDEN_MODE: u32 = 0o027;

/// A file of tokens and what it contained when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
    version: Option<FileVersion>,
    tokens: Vec<Token>,
}

/// What changes when another file takes the place of a file, or when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    len: u64,
    modified_s: i64,
    modified_ns: i64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    tokens: Vec<Token>,
}

/// What is wrong with a file of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFileError {
    path: PathBuf,
    /// The file that is wrong, if it was opened.
    version: Option<FileVersion>,
    reason: String,
}

impl fmt::Display for TokenFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for TokenFileError {}

impl TokenFile {
    /// Reads a file. One that does not exist contains no tokens.
    ///
    /// # Errors
    /// The file cannot be read, others may write it, or its content is invalid.
    pub fn load(path: &Path) -> Result<Self, TokenFileError> {
        let failed =
            |version, reason: String| TokenFileError { path: path.to_owned(), version, reason };
        let unreadable = |version, error| failed(version, format!("cannot be read: {error}"));
        let file = match input_file::open(path, FileKinds::Regular) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), version: None, tokens: vec![] });
            }
            Err(error) => return Err(unreadable(FileVersion::at(path), error)),
        };
        // Of the file that is open: another one may be at `path` by now.
        let metadata = file.metadata().map_err(|error| unreadable(None, error))?;
        // Before the content, so that a later change is noticed.
        let version = Some(FileVersion::of(&metadata));
        let failed = |reason| failed(version, reason);
        let mode = metadata.mode() & 0o777;
        if mode & FORBIDDEN_MODE != 0 {
            return Err(failed(format!(
                "other users have access to it (permissions {mode:o}): chmod 600 or 640"
            )));
        }
        let bytes = input_file::read_open(&file, FILE_BYTES_MAX, READ_TIMEOUT);
        let bytes = bytes.map_err(|error| unreadable(version, error))?;
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|error| failed(format!("not written by `sluice token`: {error}")))?;
        if document.tokens.len() > TOKENS_MAX {
            return Err(failed(format!("more than {TOKENS_MAX} tokens")));
        }
        Ok(Self { path: path.to_owned(), version, tokens: document.tokens })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tokens, in the order in which they were added.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Whether the file is not the one that was read.
    pub fn has_changed(&self) -> bool {
        FileVersion::at(&self.path) != self.version
    }

    /// Takes the file that is wrong for the one that was read, until it changes again.
    pub(crate) fn ignore(&mut self, wrong: &TokenFileError) {
        self.version = wrong.version;
    }

    /// Changes the file: another process that does so at the same time waits, and a reader finds the old file or the new one.
    ///
    /// # Errors
    /// That of `change`, or the file cannot be read or written.
    pub fn update<T>(
        path: &Path,
        change: impl FnOnce(&mut Vec<Token>) -> Result<T, String>,
    ) -> Result<T, String> {
        let beside = |extension: &str| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(extension);
            path.with_file_name(name)
        };
        let failed = |path: &Path, error: &std::io::Error| {
            format!("cannot write {}: {error}", path.display())
        };
        let lock_path = beside(".lock");
        let lock = create(&lock_path, false).map_err(|error| failed(&lock_path, &error))?;
        lock.lock().map_err(|error| failed(&lock_path, &error))?;
        let mut file = Self::load(path).map_err(|error| error.to_string())?;
        let result = change(&mut file.tokens)?;
        if file.tokens.len() > TOKENS_MAX {
            return Err(format!("{} has {TOKENS_MAX} tokens: remove one first", path.display()));
        }
        let temporary = beside(".new");
        write(&temporary, path, file.tokens).map_err(|error| failed(&temporary, &error))?;
        fs::rename(&temporary, path).map_err(|error| failed(path, &error))?;
        Ok(result)
    }
}

fn create(path: &Path, truncate: bool) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(truncate).mode(0o600).open(path)
}

/// Writes the new file, with the owner and the permissions of the old one.
fn write(temporary: &Path, path: &Path, tokens: Vec<Token>) -> std::io::Result<()> {
    let mut file = create(temporary, true)?;
    if let Ok(old) = fs::metadata(path) {
        fchown(&file, Some(old.uid()), Some(old.gid()))?;
        file.set_permissions(old.permissions())?;
    }
    let text = serde_json::to_string_pretty(&Document { tokens })?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

impl FileVersion {
    /// Of the file that is there now, if any.
    fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().as_ref().map(Self::of)
    }

    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            len: metadata.len(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::Role;
    use super::*;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("sluice-tokens-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn add(path: &Path, name: &str) -> String {
        let (text, token) = Token::generate(name, Role::Read, Duration::ZERO, None).unwrap();
        TokenFile::update(path, |tokens| {
            tokens.push(token);
            Ok(text)
        })
        .unwrap()
    }

    #[test]
    fn only_the_owner_may_read_the_file_and_it_has_hashes_only() {
        let folder = Folder::new("mode");
        let path = folder.0.join("tokens.json");
        let text = add(&path, "a");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let content = fs::read_to_string(&path).unwrap();
        assert!(!content.contains(&text) && !content.contains(&text["sluice_".len()..]));
        let file = TokenFile::load(&path).unwrap();
        assert!(super::super::find(file.tokens(), &text, Duration::ZERO).is_ok());
        assert!(!file.has_changed());
        add(&path, "b");
        assert!(file.has_changed());
    }

    #[test]
    fn permissions_of_the_file_are_kept() {
        let folder = Folder::new("kept");
        let path = folder.0.join("tokens.json");
        add(&path, "a");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        add(&path, "b");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(TokenFile::load(&path).unwrap().tokens().len(), 2);
    }

    #[test]
    fn a_missing_file_has_no_tokens_and_a_wrong_one_is_an_error() {
        let folder = Folder::new("wrong");
        let path = folder.0.join("tokens.json");
        assert_eq!(TokenFile::load(&path).unwrap().tokens(), []);
        for (content, mode, why) in [
            ("{", 0o600, "not written by `sluice token`"),
            (r#"{"tokens":[],"x":1}"#, 0o600, "unknown field `x`"),
            (r#"{"tokens":[]}"#, 0o644, "other users have access to it (permissions 644)"),
            (r#"{"tokens":[]}"#, 0o660, "other users have access to it"),
        ] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = TokenFile::load(&path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(error.contains("tokens.json"), "{error}");
        }
    }

    #[test]
    fn tokens_added_at_the_same_time_are_all_kept() {
        let folder = Folder::new("concurrent");
        let path = folder.0.join("tokens.json");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || add(path, &format!("t{n}")));
            }
        });
        assert_eq!(TokenFile::load(&path).unwrap().tokens().len(), 8);
    }
}
