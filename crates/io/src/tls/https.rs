//! TLS for HTTP, where the name in the certificate counts: configurations for `tokio-rustls`.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use super::{TlsFileError, VERSIONS, files, provider};

/// What a client of an HTTPS server uses. The certificate of the server must name the host, and be issued by an authority in the
/// PEM file `ca`, or by one that the system trusts.
///
/// # Errors
/// A file cannot be used; the error names it and the reason. Its path is `/` if the system has no trusted certificate authority.
pub fn https_client(ca: Option<&Path>) -> Result<Arc<ClientConfig>, TlsFileError> {
    let roots = match ca {
        Some(path) => files::authorities(path)?.0,
        None => system_authorities()?,
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)
        .map_err(|error| TlsFileError::new(ca.unwrap_or_else(|| Path::new("/")), error))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn system_authorities() -> Result<Arc<RootCertStore>, TlsFileError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Some systems have certificates that are not usable; the others are used all the same.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        let reason = format!("the system has no certificates of authorities{why}");
        return Err(TlsFileError::new(Path::new("/"), reason));
    }
    Ok(Arc::new(roots))
}
