//! Text that must not be taken for markup: HTML and SVG, CSV, LaTeX.

pub(crate) use sluice_bench::html::escape as html;

pub(crate) use super::latex::escape as latex;

/// A field of CSV (RFC 4180), in quotes if it needs them.
pub(crate) fn csv(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
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
        assert_eq!(slug("a b/../c"), "a-b----c");
    }
}
