//! The TLS listeners, made from the settings and the files that these name.

use std::path::Path;

use sluice_engine::TlsListeners;
use sluice_io::{ClientAuth, TlsServer};

use super::settings::Settings;
use super::values::ClientCertificates;

/// The TLS listeners, if there are any.
///
/// # Errors
/// The key that is wrong, and why.
pub(super) fn listeners(
    settings: &Settings,
) -> Result<Option<TlsListeners>, (&'static str, String)> {
    let (tcp, tls) = (&settings.listen.0, &settings.tls);
    if tls.listen.0.is_empty() {
        return if tcp.is_empty() {
            Err(("listen", "no address (expected at least one here or in `tls.listen`)".to_owned()))
        } else {
            Ok(None)
        };
    }
    if let Some(addr) = tls.listen.0.iter().find(|addr| addr.port() != 0 && tcp.contains(addr)) {
        let error =
            format!("{addr} is an address of `listen`, too: choose another port for one of them");
        return Err(("tls.listen", error));
    }
    let file = |key, path: &str, what: &str| match path {
        "" => Err((
            key,
            format!("missing (expected the PEM file with {what}; `sluice pki` makes one)"),
        )),
        path => Ok(Path::new(path).to_owned()),
    };
    let certificate = file("tls.certificate", &tls.certificate, "the controller's certificate")?;
    let key = file("tls.key", &tls.key, "the private key")?;
    let client_auth = match tls.client_auth.0 {
        ClientCertificates::Required => ClientAuth::Required(file(
            "tls.client_ca",
            &tls.client_ca,
            "the authorities that issue the switches' certificates",
        )?),
        ClientCertificates::None if tls.bind_datapath_id => {
            let error = "needs certificates of the switches, but `tls.client_auth` is none";
            return Err(("tls.bind_datapath_id", error.to_owned()));
        }
        ClientCertificates::None => ClientAuth::None,
    };
    let server = TlsServer::load(&certificate, &key, &client_auth).map_err(|error| {
        let path = match &error.path {
            path if *path == certificate => "tls.certificate",
            path if *path == key => "tls.key",
            _ => "tls.client_ca",
        };
        (path, error.to_string())
    })?;
    let bind_datapath_id = tls.bind_datapath_id;
    Ok(Some(TlsListeners { listen: tls.listen.0.clone(), server, bind_datapath_id }))
}
