//! Bytes in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

pub(super) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The data of an experimenter's property: numbers of 32 bits.
pub(super) fn to_words(bytes: &[u8]) -> Value {
    let word = |chunk: &[u8]| chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
    bytes.chunks(4).map(word).collect()
}
