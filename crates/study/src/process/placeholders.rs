//! Placeholders in the texts of a controller's file.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

/// What the placeholders of a controller stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholders {
    /// `{port}`: where switches connect.
    pub port: u16,
    /// `{api_port}`: where its northbound interface listens.
    pub api_port: u16,
    /// `{threads}`: threads that handle messages.
    pub threads: u32,
    /// `{cores}`: the cores on which it runs, such as `0,1`.
    pub cores: Vec<usize>,
    /// `{directory}`: the empty folder in which it runs.
    pub directory: PathBuf,
    /// `{home}`: where controllers are installed.
    pub home: PathBuf,
    /// `{sluice}`: this program.
    pub sluice: PathBuf,
}

/// The names that [`Placeholders::fill`] replaces.
pub(crate) const NAMES: [&str; 7] =
    ["port", "api_port", "threads", "cores", "directory", "home", "sluice"];

impl Placeholders {
    /// `text` with each placeholder replaced. Other braces stay, as those of JSON.
    pub fn fill(&self, text: &str) -> String {
        let cores: Vec<_> = self.cores.iter().map(usize::to_string).collect();
        let values = [
            self.port.to_string(),
            self.api_port.to_string(),
            self.threads.to_string(),
            cores.join(","),
            self.directory.display().to_string(),
            self.home.display().to_string(),
            self.sluice.display().to_string(),
        ];
        let values: Vec<_> = NAMES.into_iter().zip(values).collect();
        Self::replace(text, &values)
    }

    /// `text` with the placeholders of these names replaced by the values.
    pub fn replace(text: &str, values: &[(&str, String)]) -> String {
        values.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }

    /// Each of `texts` filled.
    pub fn fill_all(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.fill(text)).collect()
    }
}

/// A port on which nobody listens.
///
/// # Errors
/// There is none.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay() {
        let placeholders = Placeholders {
            port: 6653,
            api_port: 8080,
            threads: 2,
            cores: vec![0, 3],
            directory: "/tmp/d".into(),
            home: "/opt".into(),
            sluice: "/usr/bin/sluice".into(),
        };
        let text =
            r#"{sluice} {home}/x {directory} {port} {api_port} {threads} {cores} {"a": {b}}"#;
        let expected = r#"/usr/bin/sluice /opt/x /tmp/d 6653 8080 2 0,3 {"a": {b}}"#;
        assert_eq!(placeholders.fill(text), expected);
    }
}
