//! Text that must not be taken for markup: HTML and SVG, CSV, LaTeX.

pub(crate) use sluice_bench::html::escape as html;

/// A field of CSV (RFC 4180), in quotes if it needs them.
pub(crate) fn csv(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// `text` without characters that have a meaning in LaTeX.
pub(crate) fn latex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped += r"\textbackslash{}",
            '~' => escaped += r"\textasciitilde{}",
            '^' => escaped += r"\textasciicircum{}",
            '<' => escaped += r"\textless{}",
            '>' => escaped += r"\textgreater{}",
            '|' => escaped += r"\textbar{}",
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            // A bracket would end an optional argument.
            '[' => escaped += "{[}",
            ']' => escaped += "{]}",
            'µ' | 'μ' => escaped += r"\ensuremath{\mu}",
            '≥' => escaped += r"\ensuremath{\ge}",
            '≤' => escaped += r"\ensuremath{\le}",
            '±' => escaped += r"\ensuremath{\pm}",
            '²' => escaped += r"\ensuremath{^2}",
            '†' => escaped += r"\dag{}",
            '“' => escaped += "``",
            '"' | '”' => escaped += "''",
            '×' => escaped += r"\ensuremath{\times}",
            '→' => escaped += r"\ensuremath{\to}",
            '…' => escaped += r"\dots{}",
            '–' => escaped += "--",
            '—' => escaped += "---",
            '\u{a0}' | '\u{202f}' => escaped += r"\,",
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// `text` as part of a file name or an id: letters, digits and hyphens.
pub(crate) fn slug(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_titles_is_text() {
        assert_eq!(html(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(csv("plain"), "plain");
        assert_eq!(csv("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(latex(r"50 % & $5_#{}"), r"50 \% \& \$5\_\#\{\}");
        assert_eq!(
            latex(r"\a~b^c[d]"),
            r"\textbackslash{}a\textasciitilde{}b\textasciicircum{}c{[}d{]}"
        );
        assert_eq!(slug("a b/../c"), "a-b----c");
    }
}
