//! The names in a certificate.

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::der::{Any, Decode as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Whether a certificate has `name` as a DNS name or as the first word of its common name: `ovs-pki` puts more words behind it.
pub(super) fn has_name(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(certificate) = Certificate::from_der(certificate) else { return false };
    let certificate = certificate.tbs_certificate;
    let attributes = certificate.subject.0.iter().flat_map(|names| names.0.iter());
    let mut common_names = attributes.filter(|attribute| attribute.oid == COMMON_NAME);
    let is_common_name =
        common_names.any(|attribute| text(&attribute.value).split(' ').next() == Some(name));
    let dns_names = certificate.get::<SubjectAltName>().ok().flatten();
    let mut dns_names = dns_names.iter().flat_map(|(_, names)| names.0.iter());
    let is_dns_name = dns_names.any(
        |dns| matches!(dns, GeneralName::DnsName(dns) if dns.as_str().eq_ignore_ascii_case(name)),
    );
    is_common_name || is_dns_name
}

fn text(value: &Any) -> &str {
    let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str());
    let printable = || value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str());
    let ia5 = || value.decode_as::<Ia5StringRef<'_>>().map(|text| text.as_str());
    utf8.or_else(|_| printable()).or_else(|_| ia5()).unwrap_or_default()
}
