//! Text for pdflatex, which sets only what its fonts have: everything else is written with commands, transliterated, or named.

/// Accents as commands, each with the letters that have it and the letters without it.
const ACCENTS: [(&str, &str, &str); 12] = [
    ("\\`", "ÀÈÌÒÙàèìòù", "AEIOUaeiou"),
    ("\\'", "ÁÉÍÓÚÝáéíóúýĆćĹĺŃńŔŕŚśŹź", "AEIOUYaeiouyCcLlNnRrSsZz"),
    ("\\^", "ÂÊÎÔÛâêîôûĈĉĜĝĤĥĴĵŜŝŴŵŶŷ", "AEIOUaeiouCcGgHhJjSsWwYy"),
    ("\\~", "ÃÑÕãñõĨĩŨũ", "ANOanoIiUu"),
    ("\\\"", "ÄËÏÖÜäëïöüÿŸ", "AEIOUaeiouyY"),
    ("\\r", "ÅåŮů", "AaUu"),
    ("\\c", "ÇçĢģĶķĻļŅņŖŗŞşŢţ", "CcGgKkLlNnRrSsTt"),
    ("\\=", "ĀāĒēĪīŌōŪū", "AaEeIiOoUu"),
    ("\\u", "ĂăĔĕĞğĬĭŎŏŬŭ", "AaEeGgIiOoUu"),
    ("\\.", "ĊċĖėĠġİŻż", "CcEeGgIZz"),
    ("\\v", "ČčĎďĚěĽľŇňŘřŠšŤťŽžǍǎǏǐǑǒǓǔ", "CcDdEeLlNnRrSsTtZzAaIiOoUu"),
    ("\\H", "ŐőŰű", "OoUu"),
];

/// Other characters that pdflatex cannot set, or sets otherwise, and what is written for them.
const CHARACTERS: [(char, &str); 121] = [
    ('µ', "\\ensuremath{\\mu}"),
    ('≥', "\\ensuremath{\\ge}"),
    ('≤', "\\ensuremath{\\le}"),
    ('±', "\\ensuremath{\\pm}"),
    ('²', "\\ensuremath{^2}"),
    ('³', "\\ensuremath{^3}"),
    ('†', "\\dag{}"),
    ('‡', "\\ddag{}"),
    ('“', "``"),
    ('”', "''"),
    ('„', "``"),
    ('‘', "`"),
    ('’', "'"),
    ('‚', "`"),
    ('«', "``"),
    ('»', "''"),
    ('×', "\\ensuremath{\\times}"),
    ('÷', "\\ensuremath{\\div}"),
    ('→', "\\ensuremath{\\to}"),
    ('←', "\\ensuremath{\\leftarrow}"),
    ('…', "\\dots{}"),
    ('–', "--"),
    ('—', "---"),
    ('−', "\\ensuremath{-}"),
    ('‑', "-"),
    ('‐', "-"),
    ('·', "\\ensuremath{\\cdot}"),
    ('•', "\\ensuremath{\\bullet}"),
    ('°', "\\ensuremath{^\\circ}"),
    ('≈', "\\ensuremath{\\approx}"),
    ('≠', "\\ensuremath{\\ne}"),
    ('∞', "\\ensuremath{\\infty}"),
    ('½', "1/2"),
    ('¼', "1/4"),
    ('¾', "3/4"),
    ('ß', "\\ss{}"),
    ('æ', "\\ae{}"),
    ('Æ', "\\AE{}"),
    ('œ', "\\oe{}"),
    ('Œ', "\\OE{}"),
    ('ø', "\\o{}"),
    ('Ø', "\\O{}"),
    ('ł', "\\l{}"),
    ('Ł', "\\L{}"),
    ('ı', "\\i{}"),
    ('ð', "d"),
    ('Ð', "D"),
    ('þ', "th"),
    ('Þ', "Th"),
    ('đ', "d"),
    ('Đ', "D"),
    ('ą', "a"),
    ('Ą', "A"),
    ('ę', "e"),
    ('Ę', "E"),
    ('į', "i"),
    ('Į', "I"),
    ('ų', "u"),
    ('Ų', "U"),
    ('ħ', "h"),
    ('Ħ', "H"),
    ('ŋ', "ng"),
    ('Ŋ', "NG"),
    ('©', "\\copyright{}"),
    ('®', "(R)"),
    ('™', "(TM)"),
    ('€', "EUR"),
    ('£', "\\pounds{}"),
    ('§', "\\S{}"),
    ('¶', "\\P{}"),
    ('¿', "?`"),
    ('¡', "!`"),
    ('ς', "\\ensuremath{\\varsigma}"),
    ('α', "\\ensuremath{\\alpha}"),
    ('β', "\\ensuremath{\\beta}"),
    ('γ', "\\ensuremath{\\gamma}"),
    ('δ', "\\ensuremath{\\delta}"),
    ('ε', "\\ensuremath{\\varepsilon}"),
    ('ζ', "\\ensuremath{\\zeta}"),
    ('η', "\\ensuremath{\\eta}"),
    ('θ', "\\ensuremath{\\theta}"),
    ('ι', "\\ensuremath{\\iota}"),
    ('κ', "\\ensuremath{\\kappa}"),
    ('λ', "\\ensuremath{\\lambda}"),
    ('μ', "\\ensuremath{\\mu}"),
    ('ν', "\\ensuremath{\\nu}"),
    ('ξ', "\\ensuremath{\\xi}"),
    ('π', "\\ensuremath{\\pi}"),
    ('ρ', "\\ensuremath{\\rho}"),
    ('σ', "\\ensuremath{\\sigma}"),
    ('τ', "\\ensuremath{\\tau}"),
    ('υ', "\\ensuremath{\\upsilon}"),
    ('φ', "\\ensuremath{\\varphi}"),
    ('χ', "\\ensuremath{\\chi}"),
    ('ψ', "\\ensuremath{\\psi}"),
    ('ω', "\\ensuremath{\\omega}"),
    ('Γ', "\\ensuremath{\\Gamma}"),
    ('Δ', "\\ensuremath{\\Delta}"),
    ('Θ', "\\ensuremath{\\Theta}"),
    ('Λ', "\\ensuremath{\\Lambda}"),
    ('Ξ', "\\ensuremath{\\Xi}"),
    ('Π', "\\ensuremath{\\Pi}"),
    ('Σ', "\\ensuremath{\\Sigma}"),
    ('Φ', "\\ensuremath{\\Phi}"),
    ('Ψ', "\\ensuremath{\\Psi}"),
    ('Ω', "\\ensuremath{\\Omega}"),
    ('Α', "A"),
    ('Β', "B"),
    ('Ε', "E"),
    ('Ζ', "Z"),
    ('Η', "H"),
    ('Ι', "I"),
    ('Κ', "K"),
    ('Μ', "M"),
    ('Ν', "N"),
    ('Ο', "O"),
    ('Ρ', "P"),
    ('Τ', "T"),
    ('Υ', "Y"),
    ('Χ', "X"),
    ('ο', "o"),
];

/// Cyrillic letters, transliterated as in passports.
const CYRILLIC: [(char, &str); 76] = [
    ('а', "a"),
    ('б', "b"),
    ('в', "v"),
    ('г', "g"),
    ('д', "d"),
    ('е', "e"),
    ('ё', "yo"),
    ('ж', "zh"),
    ('з', "z"),
    ('и', "i"),
    ('й', "y"),
    ('к', "k"),
    ('л', "l"),
    ('м', "m"),
    ('н', "n"),
    ('о', "o"),
    ('п', "p"),
    ('р', "r"),
    ('с', "s"),
    ('т', "t"),
    ('у', "u"),
    ('ф', "f"),
    ('х', "kh"),
    ('ц', "ts"),
    ('ч', "ch"),
    ('ш', "sh"),
    ('щ', "shch"),
    ('ъ', ""),
    ('ы', "y"),
    ('ь', ""),
    ('э', "e"),
    ('ю', "yu"),
    ('я', "ya"),
    ('і', "i"),
    ('ї', "yi"),
    ('є', "ye"),
    ('ґ', "g"),
    ('ў', "w"),
    ('А', "A"),
    ('Б', "B"),
    ('В', "V"),
    ('Г', "G"),
    ('Д', "D"),
    ('Е', "E"),
    ('Ё', "Yo"),
    ('Ж', "Zh"),
    ('З', "Z"),
    ('И', "I"),
    ('Й', "Y"),
    ('К', "K"),
    ('Л', "L"),
    ('М', "M"),
    ('Н', "N"),
    ('О', "O"),
    ('П', "P"),
    ('Р', "R"),
    ('С', "S"),
    ('Т', "T"),
    ('У', "U"),
    ('Ф', "F"),
    ('Х', "Kh"),
    ('Ц', "Ts"),
    ('Ч', "Ch"),
    ('Ш', "Sh"),
    ('Щ', "Shch"),
    ('Ъ', ""),
    ('Ы', "Y"),
    ('Ь', ""),
    ('Э', "E"),
    ('Ю', "Yu"),
    ('Я', "Ya"),
    ('І', "I"),
    ('Ї', "Yi"),
    ('Є', "Ye"),
    ('Ґ', "G"),
    ('Ў', "W"),
];

/// `text` as pdflatex sets it with its standard fonts: without characters that have a meaning in LaTeX, in ASCII only.
///
/// Characters that can neither be set nor transliterated are written as their code points, such as `[U+4E2D]`.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '\\' => escaped += r"\textbackslash{}",
            '~' => escaped += r"\textasciitilde{}",
            '^' => escaped += r"\textasciicircum{}",
            '<' => escaped += r"\textless{}",
            '>' => escaped += r"\textgreater{}",
            '|' => escaped += r"\textbar{}",
            '"' => escaped += "''",
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            // A bracket would end an optional argument.
            '[' => escaped += "{[}",
            ']' => escaped += "{]}",
            // Options of commands: two hyphens would become a dash, and a question mark before a quote a mark of Spanish.
            '-' if before == '-' => escaped += "{}-",
            '`' => escaped += "{}`",
            '\'' if before == '\'' => escaped += "{}'",
            '\u{a0}' | '\u{202f}' | '\u{2009}' => escaped += r"\,",
            c if c.is_control() => escaped.push(' '),
            c if c.is_ascii() => escaped.push(c),
            c => escaped += &other(c),
        }
        before = c;
    }
    escaped
}

/// A character that is not ASCII.
fn other(c: char) -> String {
    let accented = ACCENTS.iter().find_map(|(command, with, without)| {
        let at = with.chars().position(|it| it == c)?;
        Some(format!("{command}{{{}}}", without.chars().nth(at)?))
    });
    let written = || {
        let mut all = CHARACTERS.iter().chain(&CYRILLIC);
        all.find(|(it, _)| *it == c).map(|(_, text)| (*text).to_owned())
    };
    accented.or_else(written).unwrap_or_else(|| match u32::from(c) {
        // Marks that combine with the letter before, directions and joiners have no width of their own.
        0x300..=0x36f
        | 0x200b..=0x200f
        | 0x202a..=0x202e
        | 0x2060..=0x2064
        | 0xfe00..=0xfe0f
        | 0xfeff => String::new(),
        code => format!("{{[}}U+{code:04X}{{]}}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_titles_is_text() {
        assert_eq!(escape(r"50 % & $5_#{}"), r"50 \% \& \$5\_\#\{\}");
        assert_eq!(
            escape(r"\a~b^c[d]"),
            r"\textbackslash{}a\textasciitilde{}b\textasciicircum{}c{[}d{]}"
        );
        assert_eq!(escape("--no-buffer ---"), "-{}-no-buffer -{}-{}-");
        assert_eq!(escape("two\nlines\tand `more`"), "two lines and {}`more{}`");
    }

    #[test]
    fn what_the_fonts_do_not_have_is_written_otherwise() {
        assert_eq!(
            escape("Müller, Žižek, façade, Åsa"),
            "M\\\"{u}ller, \\v{Z}i\\v{z}ek, fa\\c{c}ade, \\r{A}sa"
        );
        assert_eq!(escape("Straße, Łódź"), "Stra\\ss{}e, \\L{}\\'{o}d\\'{z}");
        assert_eq!(
            escape("µs ± 2 ≥ Δ"),
            r"\ensuremath{\mu}s \ensuremath{\pm} 2 \ensuremath{\ge} \ensuremath{\Delta}"
        );
        assert_eq!(escape("Контроллер Щ"), "Kontroller Shch");
        assert_eq!(escape("控"), "{[}U+63A7{]}");
        assert_eq!(escape("🚀"), "{[}U+1F680{]}");
        assert_eq!(escape("e\u{301}\u{200b}"), "e");
    }

    #[test]
    fn all_text_is_ascii_with_balanced_braces() {
        let text: String = (0..0x3000).chain(0x1f600..0x1f610).filter_map(char::from_u32).collect();
        let escaped = escape(&text);
        assert!(escaped.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let plain = escaped.replace(r"\{", "").replace(r"\}", "");
        assert_eq!(plain.matches('{').count(), plain.matches('}').count());
        for (command, with, without) in ACCENTS {
            assert_eq!(with.chars().count(), without.chars().count(), "{command}");
            assert!(without.is_ascii());
        }
    }
}
