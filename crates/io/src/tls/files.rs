//! Certificates and keys in files.

use std::fmt;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::input_file::{self, FileKinds};

/// Largest file: more than any chain of certificates needs.
const FILE_BYTES_MAX: usize = 1 << 20;

/// How long reading a file may take. Only a pipe or a device takes as long.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// What is wrong with a file of certificates or a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, and what is expected.
    pub reason: String,
}

impl fmt::Display for TlsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for TlsFileError {}

impl TlsFileError {
    pub(super) fn new(path: &Path, reason: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    let text = input_file::read(path, FileKinds::Regular, FILE_BYTES_MAX + 1, READ_TIMEOUT)
        .map_err(|error| TlsFileError::new(path, format!("cannot be read: {error}")))?;
    if text.len() > FILE_BYTES_MAX {
        let mib = FILE_BYTES_MAX >> 20;
        return Err(TlsFileError::new(path, format!("larger than {mib} MiB")));
    }
    Ok(text)
}

/// The certificates of a PEM file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(Cursor::new(text)).collect();
    let all = all.map_err(|error| TlsFileError::new(path, format!("invalid PEM: {error}")))?;
    if all.is_empty() {
        let reason = "no certificate (expected PEM with -----BEGIN CERTIFICATE-----)";
        return Err(TlsFileError::new(path, reason));
    }
    Ok(all)
}

/// The private key of a PEM file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        let reason =
            "no private key (expected PEM with -----BEGIN PRIVATE KEY-----, not encrypted)";
        TlsFileError::new(path, reason)
    })
}

/// The authorities of a PEM file.
pub(super) fn authorities(
    path: &Path,
) -> Result<(Arc<RootCertStore>, Vec<CertificateDer<'static>>), TlsFileError> {
    let certificates = certificates(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|error| TlsFileError::new(path, error))?;
    }
    Ok((Arc::new(roots), certificates))
}
