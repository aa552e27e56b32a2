//! Files that have either their old or their new content, after an interruption and for every reader.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

/// Replaces the content of a file. If several processes do so at the same time, the last one wins.
///
/// # Errors
/// Those of the file system; the file has its old content then.
pub(crate) fn write(path: &Path, content: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", process::id()));
    let new = PathBuf::from(name);
    let result = write_new(&new, content).and_then(|()| fs::rename(&new, path));
    if result.is_err() {
        // The error of writing is the one to report.
        let _ = fs::remove_file(&new);
    }
    result
}

fn write_new(path: &Path, content: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_the_old_file_keeps_its_content_and_nothing_else_is_left() {
        let folder = std::env::temp_dir().join(format!("sluice-atomic-file-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("report.html");
        write(&path, "old").unwrap();
        let reader = File::open(&path).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "old");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(write(&folder, "x").is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
