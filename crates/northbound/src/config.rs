//! What is configured.

use std::net::SocketAddr;
use std::path::PathBuf;

use sluice_io::TlsServer;

use crate::tokens::{Role, TokenFile};

/// Where metrics and the API are served, and to whom.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Address of the TCP listener.
    pub listen: Option<SocketAddr>,
    /// Path of the Unix socket.
    pub socket: Option<PathBuf>,
    /// What may change while the server runs.
    pub access: AccessConfig,
}

/// Who may use the API. It may change while the server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessConfig {
    /// Certificate and key of the TCP listener; without them it serves plain HTTP.
    pub tls: Option<TlsServer>,
    /// The role of programs on this machine that present no token; `None` for no access.
    pub local_role: Option<Role>,
    /// The tokens that are accepted.
    pub tokens: Option<TokenFile>,
    /// Whether other machines may present a token without TLS.
    pub tokens_without_tls: bool,
    /// Where writes are recorded.
    pub audit: AuditTarget,
    /// Whether a write is refused if it cannot be recorded.
    pub audit_required: bool,
}

/// Where writes are recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AuditTarget {
    /// Nowhere.
    Off,
    /// In the log, with the target `audit`.
    #[default]
    Log,
    /// In a file, one JSON object per line.
    File(PathBuf),
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            tls: None,
            local_role: Some(Role::Administer),
            tokens: None,
            tokens_without_tls: false,
            audit: AuditTarget::default(),
            audit_required: false,
        }
    }
}

impl Config {
    /// Serves on one address, with the defaults for everything else.
    pub fn on(listen: SocketAddr) -> Self {
        Self { listen: Some(listen), ..Self::default() }
    }

    /// Whether anything is served.
    pub fn has_listener(&self) -> bool {
        self.listen.is_some() || self.socket.is_some()
    }
}
