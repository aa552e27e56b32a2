//! What tells a program from another one with the same name.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use sluice_base::sort_by;

/// Length and hash of a file; of a folder, those of the list of its files with their lengths.
pub(crate) fn identity(path: &Path) -> String {
    identity_of(&if path.is_dir() { list(path) } else { fs::read(path).unwrap_or_default() })
}

/// Length and hash.
fn identity_of(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{} bytes, {:016x}", bytes.len(), hasher.finish())
}

/// Names and lengths of the files in a folder.
fn list(folder: &Path) -> Vec<u8> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let line = |entry: fs::DirEntry| {
        let length = entry.path().metadata().ok().filter(fs::Metadata::is_file);
        let length = length.map_or(0, |it| it.len());
        format!("{} {length}\n", entry.file_name().to_string_lossy())
    };
    let mut lines: Vec<_> = entries.map(line).collect();
    sort_by(&mut lines, Ord::cmp);
    lines.concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_content_and_other_files_of_a_folder_are_another_identity() {
        let folder = std::env::temp_dir().join(format!("sluice-identity-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.jar");
        fs::write(&file, "one").unwrap();
        let first = [identity(&file), identity(&folder)];
        assert_eq!([identity(&file), identity(&folder)], first);
        fs::write(&file, "two").unwrap();
        assert_ne!(identity(&file), first[0]);
        fs::write(folder.join("b.jar"), "").unwrap();
        assert_ne!(identity(&folder), first[1]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
