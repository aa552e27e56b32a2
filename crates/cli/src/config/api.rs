//! The listeners of the API and who may use it, made from the settings and the files that these name.

use std::path::{Path, PathBuf};

use sluice_io::{ClientAuth, TlsServer};
use sluice_northbound::tokens::TokenFile;
use sluice_northbound::{AccessConfig, AuditTarget, Config};

use super::settings::ApiSettings;

/// The configuration of the API.
///
/// # Errors
/// The key that is wrong, and why.
pub(super) fn config(settings: &ApiSettings) -> Result<Config, (&'static str, String)> {
    let tokens = path(&settings.tokens).map(|path| TokenFile::load(&path)).transpose();
    let tokens = tokens.map_err(|error| ("api.tokens", error.to_string()))?;
    let audit = match settings.audit.as_str() {
        "off" => AuditTarget::Off,
        "log" => AuditTarget::Log,
        path if Path::new(path).is_absolute() => AuditTarget::File(path.into()),
        other => {
            let error = format!(
                "invalid value \"{other}\" (expected off, log, or the absolute path of a file)"
            );
            return Err(("api.audit", error));
        }
    };
    if settings.audit_required && !matches!(audit, AuditTarget::File(_)) {
        let error = "needs a file, but `api.audit` names none";
        return Err(("api.audit_required", error.to_owned()));
    }
    Ok(Config {
        listen: settings.listen.0,
        socket: path(&settings.socket),
        access: AccessConfig {
            tls: tls(settings)?,
            local_role: settings.local_role.0,
            tokens,
            tokens_without_tls: settings.tokens_without_tls,
            audit,
            audit_required: settings.audit_required,
        },
    })
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

fn tls(settings: &ApiSettings) -> Result<Option<TlsServer>, (&'static str, String)> {
    let (certificate, key) = match (path(&settings.certificate), path(&settings.key)) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => {
            let error = "missing (expected the PEM file with the key of `api.certificate`)";
            return Err(("api.key", error.to_owned()));
        }
        (None, Some(_)) => {
            let error = "missing (expected the PEM file with the certificate for `api.key`)";
            return Err(("api.certificate", error.to_owned()));
        }
    };
    let server = TlsServer::load(&certificate, &key, &ClientAuth::None).map_err(|error| {
        let path = if error.path == certificate { "api.certificate" } else { "api.key" };
        (path, error.to_string())
    })?;
    Ok(Some(server))
}
