//! Error messages for unknown keys and invalid values.

use toml::Value;

use super::keys::KEYS;
use super::removed;

/// The error for an unknown key `path`: its replacement if an earlier version had it, or else a key with a similar
/// spelling or with the same name in another section.
pub(super) fn unknown_key(path: &str) -> String {
    if let Some(replacement) = removed::replacement(path) {
        return replacement;
    }
    let name = |path: &str| path.rsplit('.').next().map(str::to_owned);
    let same_name = KEYS.iter().map(|key| key.path.as_str()).find(|key| name(key) == name(path));
    let similar = KEYS
        .iter()
        .flat_map(|key| [key.path.as_str(), key.section])
        .filter(|known| !known.is_empty() && known.contains('.') == path.contains('.'))
        .map(|known| (strsim::damerau_levenshtein(known, path), known))
        .min()
        .filter(|&(distance, _)| distance <= path.len() / 4)
        .map(|(_, known)| known);
    match similar.or(same_name) {
        Some(known) => format!("unknown key `{path}`; did you mean `{known}`?"),
        None => format!("unknown key `{path}`; `sluice config example` shows all keys"),
    }
}

/// Names that serde gives to types, and what the error message calls them.
const TYPES: &[(&str, &str)] = &[
    ("a nonzero usize", "a whole number above 0"),
    ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ("a nonzero u16", "a whole number from 1 to 65535"),
    ("usize", "a whole number, 0 or more"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a sequence", "a list"),
    ("a string", "a text"),
];

/// Rewrites an error message of serde about `value`: `invalid type: string "x", expected usize` becomes
/// `invalid value "x" (expected a whole number, 0 or more)`.
pub(super) fn rewrite_serde_message(message: &str, value: &Value) -> String {
    if let Some(expected) = message.strip_prefix("expected ") {
        if value.is_table() {
            return format!("invalid value a section (expected {expected})");
        }
        return format!("invalid value {value} (expected {expected})");
    }
    let rest =
        message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let Some((found, expected)) = rest.and_then(|rest| rest.split_once(", expected ")) else {
        return message.to_owned();
    };
    let expected = TYPES.iter().find(|(name, _)| *name == expected).map_or(expected, |(_, to)| to);
    let found = match found {
        "map" => "a section",
        "sequence" => "a list",
        // The value in "integer `-1`" or "string \"x\"".
        other => match (other.split_once('`'), other.find('"')) {
            (Some((_, number)), _) => number.trim_end_matches('`'),
            (None, Some(quote)) => other.get(quote..).unwrap_or(other),
            (None, None) => other,
        },
    };
    format!("invalid value {found} (expected {expected})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_serde_are_rewritten() {
        for (message, text) in [
            (
                "invalid value: integer `-1`, expected usize",
                "-1 (expected a whole number, 0 or more)",
            ),
            ("invalid type: string \"a b\", expected a sequence", "\"a b\" (expected a list)"),
            (
                "invalid type: floating point `1.5`, expected u16",
                "1.5 (expected a whole number from 0 to 65535)",
            ),
            ("invalid type: map, expected a boolean", "a section (expected true or false)"),
        ] {
            assert_eq!(
                rewrite_serde_message(message, &Value::Boolean(true)),
                format!("invalid value {text}")
            );
        }
        let expected = rewrite_serde_message("expected a list of cores", &Value::Integer(7));
        assert_eq!(expected, "invalid value 7 (expected a list of cores)");
        assert_eq!(rewrite_serde_message("no port", &Value::Boolean(true)), "no port");
    }
}
