//! The command line that starts a controller, as one types it into a shell.

use std::collections::BTreeMap;

use sluice_base::ordered;

use crate::definition::{Start, Variant};

/// The command line of a controller with its variables, of which `fill` replaces the placeholders.
pub(crate) fn command_line(
    start: &Start,
    variant: &Variant,
    fill: impl Fn(&str) -> String,
) -> String {
    let environment = start.environment.iter().chain(&variant.environment);
    let environment: BTreeMap<_, _> = ordered(environment);
    let variables = environment.into_iter().map(|(name, value)| {
        let value = shell_word(&fill(value));
        format!("{name}={value}")
    });
    let command = std::iter::once(&start.program).chain(&start.arguments);
    let words = command.chain(&variant.arguments).map(|word| shell_word(&fill(word)));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it: quoted if it has characters that mean something else there.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:=@%,{}".contains(&byte);
    // Such as `{a,b}` and `{1..3}`.
    let is_expanded = word.contains('{') && (word.contains(',') || word.contains(".."));
    if !word.is_empty() && word.bytes().all(is_plain) && !is_expanded {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_come_first_and_those_of_the_variant_replace_others() {
        let start: Start = toml::from_str(
            "program = \"{home}/x\"\narguments = [\"l2\", \"\", \"it's\", \"{a,b}\"]\n\
             environment = { PORT = \"{port}\", MODE = \"slow\" }\n",
        )
        .unwrap();
        let variant = Variant {
            arguments: vec!["--pin".to_owned(), "0,1".to_owned()],
            environment: BTreeMap::from([("MODE".to_owned(), "very fast".to_owned())]),
        };
        let fill = |text: &str| text.replace("{port}", "6653");
        assert_eq!(
            command_line(&start, &variant, fill),
            r"MODE='very fast' PORT=6653 {home}/x l2 '' 'it'\''s' '{a,b}' --pin 0,1"
        );
    }
}
