//! Tokens, with which programs of other machines use the API, and the file that keeps their hashes.

mod file;

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

pub use file::{TOKENS_MAX, TokenFile, TokenFileError};

/// What every token begins with, so that tools find one that was published by mistake.
pub const TOKEN_PREFIX: &str = "sluice_";

/// Random bytes of a token.
const SECRET_BYTES: usize = 32;

/// The longest name of a token.
const NAME_LEN_MAX: usize = 64;

/// What a client may do. Each role includes the ones before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// See the network.
    Read,
    /// Change the network: flow entries, ports, configuration of switches.
    Operate,
    /// Change who may do so.
    Administer,
}

impl Role {
    /// All roles and their names.
    pub const NAMES: [(&'static str, Self); 3] =
        [("read", Self::Read), ("operate", Self::Operate), ("administer", Self::Administer)];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, role)| role == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        let unknown = || format!("unknown role \"{text}\" (known: read, operate, administer)");
        found.map(|&(_, role)| role).ok_or_else(unknown)
    }
}

/// A token as it is stored: it cannot be recovered from its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Name of the program or person that has it; it appears in the audit log.
    pub name: String,
    /// What it permits.
    pub role: Role,
    /// SHA-256 of the token, in hexadecimal digits.
    sha256: TokenHash,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
    /// From when on it is refused, in seconds since 1970; `None` for never.
    pub expires_unix_s: Option<u64>,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    /// No token of this value exists.
    Unknown,
    /// Its time is over.
    Expired,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct TokenHash([u8; SECRET_BYTES]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl TokenHash {
    fn of(token: &str) -> Self {
        let mut hash = [0; SECRET_BYTES];
        for (to, from) in hash.iter_mut().zip(digest(&SHA256, token.as_bytes()).as_ref()) {
            *to = *from;
        }
        Self(hash)
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hex(&hash.0)
    }
}

impl TryFrom<String> for TokenHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let invalid = "invalid hash (expected 64 hexadecimal digits)";
        if text.len() != 2 * SECRET_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid);
        }
        let mut hash = [0; SECRET_BYTES];
        for (at, byte) in hash.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).map_err(|_| invalid)?;
        }
        Ok(Self(hash))
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Token {
    /// Distinguishes it from others, without its secret.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.sha256.0.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Makes a token: the text for the client, and what is stored. `now` is the time since 1970.
    ///
    /// # Errors
    /// The name is invalid, or the system has no random numbers.
    pub fn generate(
        name: &str,
        role: Role,
        now: Duration,
        expires: Option<Duration>,
    ) -> Result<(String, Self), String> {
        check_name(name)?;
        let mut secret = [0; SECRET_BYTES];
        let random = SystemRandom::new().fill(&mut secret);
        random.map_err(|_| "the system has no random numbers".to_owned())?;
        let text = format!("{TOKEN_PREFIX}{}", hex(&secret));
        let token = Self {
            name: name.to_owned(),
            role,
            sha256: TokenHash::of(&text),
            created_unix_s: now.as_secs(),
            expires_unix_s: expires.map(|after| now.saturating_add(after).as_secs()),
        };
        Ok((text, token))
    }

    /// Whether its time is over. `now` is the time since 1970.
    pub fn is_expired(&self, now: Duration) -> bool {
        self.expires_unix_s.is_some_and(|expires| now.as_secs() >= expires)
    }
}

/// Letters, digits and some signs: names are written to logs and tables.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_plain) {
        return Err(format!(
            "invalid name {name:?} (expected 1 to {NAME_LEN_MAX} letters, digits, `-`, `_`, `.` or `@`)"
        ));
    }
    Ok(())
}

/// The token of this text. All are compared, each in constant time, so that the time tells nothing about the others.
pub(crate) fn find<'t>(
    tokens: &'t [Token],
    text: &str,
    now: Duration,
) -> Result<&'t Token, TokenRefusal> {
    let hash = TokenHash::of(text);
    let mut found = None;
    for token in tokens {
        if bool::from(token.sha256.0.ct_eq(&hash.0)) {
            found = Some(token);
        }
    }
    match found {
        None => Err(TokenRefusal::Unknown),
        Some(token) if token.is_expired(now) => Err(TokenRefusal::Expired),
        Some(token) => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    #[test]
    fn a_token_is_found_by_its_text_until_it_expires() {
        let day = Duration::from_secs(86_400);
        let (text, token) = Token::generate("web", Role::Read, NOW, Some(day)).unwrap();
        let (other_text, other) = Token::generate("other", Role::Operate, NOW, None).unwrap();
        assert_ne!(text, other_text);
        assert_eq!(text.len(), TOKEN_PREFIX.len() + 64);
        let tokens = [token.clone(), other];
        assert_eq!(find(&tokens, &text, NOW).unwrap().name, "web");
        assert_eq!(find(&tokens, &other_text, NOW + 99 * day).unwrap().name, "other");
        assert_eq!(find(&tokens, &text, NOW + day), Err(TokenRefusal::Expired));
        assert_eq!(find(&tokens, &text, NOW + Duration::from_secs(86_399)), Ok(&token));
        for wrong in ["", "sluice_", &text[1..], &format!("{text} "), &text.to_uppercase()] {
            assert_eq!(find(&tokens, wrong, NOW), Err(TokenRefusal::Unknown), "{wrong:?}");
        }
    }

    #[test]
    fn names_have_plain_characters() {
        for name in ["web", "alice@example.org", "a_b-c.d"] {
            assert!(Token::generate(name, Role::Read, NOW, None).is_ok(), "{name}");
        }
        for name in ["", "a b", "a\nb", "é", "\"", &"x".repeat(65)] {
            assert!(Token::generate(name, Role::Read, NOW, None).is_err(), "{name}");
        }
    }

    #[test]
    fn roles_include_lower_ones() {
        assert!(Role::Read < Role::Operate && Role::Operate < Role::Administer);
        for (name, role) in Role::NAMES {
            assert_eq!((name.parse(), role.to_string().as_str()), (Ok(role), name));
        }
        assert!("root".parse::<Role>().is_err());
    }
}
