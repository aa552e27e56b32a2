//! `sluice token`: the file, and what is printed.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sluice-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Exit code, standard output and standard error of `sluice token` with `words`, and the folder's configuration.
    fn token(&self, words: &str) -> (i32, String, String) {
        let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
        sluice.arg("token").args(words.split_whitespace());
        let output = sluice.arg("--config").arg(self.0.join("sluice.toml")).output().unwrap();
        let [out, error] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code().unwrap(), out, error)
    }
}

#[test]
fn tokens_are_added_listed_and_removed_in_the_file_of_the_configuration() {
    let folder = Folder::new("token");
    let tokens = folder.0.join("tokens.json");
    fs::write(folder.0.join("sluice.toml"), format!("[api]\ntokens = {tokens:?}\n")).unwrap();
    let (code, token, error) = folder.token("add web --role read --expires 90d");
    assert_eq!(code, 0, "{error}");
    assert!(token.starts_with("sluice_") && token.trim().len() == 71, "{token}");
    assert!(!fs::read_to_string(&tokens).unwrap().contains(token.trim()));
    assert_eq!(folder.token("add script --role operate").0, 0);
    let (_, list, _) = folder.token("list");
    let rows: Vec<Vec<&str>> =
        list.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
    // The seconds since it was made decide between 90 days and an hour less.
    assert_eq!(rows[0][..3], ["web", "read", "in"], "{list}");
    assert!(["90", "89"].contains(&rows[0][3]), "{list}");
    assert_eq!(rows[1], ["script", "operate", "never"], "{list}");
    assert_eq!(folder.token("remove web").0, 0);
    assert!(!folder.token("list").1.contains("web"));
}

#[test]
fn what_is_wrong_is_said() {
    let folder = Folder::new("token-errors");
    let config = folder.0.join("sluice.toml");
    fs::write(&config, "").unwrap();
    let (code, _, error) = folder.token("list");
    assert_eq!(code, 1);
    assert!(error.contains("set api.tokens in the configuration (SLUICE_API__TOKENS)"), "{error}");
    let tokens = folder.0.join("tokens.json");
    fs::write(&config, format!("[api]\ntokens = {tokens:?}\n")).unwrap();
    assert_eq!(folder.token("add web --role read").0, 0);
    for (words, code, why) in [
        ("add web --role read", 1, "there is a token \"web\": remove it first"),
        ("add a/b --role read", 1, "invalid name"),
        ("add x --role root", 2, "unknown role \"root\" (known: read, operate, administer)"),
        ("add x --role read --expires 5", 2, "expected a number of days or hours"),
        ("remove other", 1, "has no token \"other\""),
    ] {
        let (found, out, error) = folder.token(words);
        assert_eq!((found, out.as_str()), (code, ""), "{words}: {error}");
        assert!(error.contains(why), "{words}: {error}");
    }
}
