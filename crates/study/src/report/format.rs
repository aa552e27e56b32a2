//! Numbers for readers: three significant digits with their unit.

use crate::record::Sample;

/// A space at which no line is broken, narrower than others.
pub(crate) const THIN_SPACE: char = '\u{202f}';

/// What a unit measures, as far as its numbers are written with another prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Quantity {
    /// Events per second.
    Rate,
    /// A time; the factor converts it to seconds.
    Time(f64),
    /// An amount of memory; the factor converts it to bytes.
    Memory(f64),
    /// Anything else.
    Other,
}

/// What `unit` measures.
pub(crate) fn quantity_of(unit: &str) -> Quantity {
    match unit.trim() {
        "ns" => Quantity::Time(1e-9),
        "us" | "µs" | "μs" => Quantity::Time(1e-6),
        "ms" => Quantity::Time(1e-3),
        "s" => Quantity::Time(1.0),
        "B" | "bytes" => Quantity::Memory(1.0),
        "KiB" => Quantity::Memory(1024.0),
        "MiB" => Quantity::Memory(1024.0 * 1024.0),
        "GiB" => Quantity::Memory(1024.0 * 1024.0 * 1024.0),
        "MB/s" | "MiB/s" | "B/s" => Quantity::Other,
        unit if unit.ends_with("/s") || unit.ends_with("per second") => Quantity::Rate,
        _ => Quantity::Other,
    }
}

/// `value` with its unit, such as `1.23 M/s`, `12.3 ms` or `45.0 MiB`.
pub(crate) fn value(value: f64, unit: &str) -> String {
    with_digits(value, unit, three_digits)
}

/// `value` with its unit and without zeros at the end, for axes.
pub(crate) fn tick(value: f64, unit: &str) -> String {
    with_digits(value, unit, |number| {
        let text = three_digits(number);
        if !text.contains('.') || text.contains('e') {
            return text;
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    })
}

fn with_digits(value: f64, unit: &str, digits: impl Fn(f64) -> String) -> String {
    if !value.is_finite() {
        return "none".to_owned();
    }
    let join = |number: f64, unit: &str| {
        let number = digits(number);
        if unit.is_empty() { number } else { format!("{number}{THIN_SPACE}{unit}") }
    };
    let magnitude = value.abs();
    match quantity_of(unit) {
        Quantity::Rate => {
            let (number, prefix) = with_prefix(value);
            join(number, &format!("{prefix}/s"))
        }
        Quantity::Time(factor) => {
            let seconds = magnitude * factor;
            let (scale, unit) = match seconds {
                s if s >= 0.9995 || s == 0.0 => (1.0, "s"),
                s if s >= 0.999_5e-3 => (1e3, "ms"),
                s if s >= 0.999_5e-6 => (1e6, "µs"),
                _ => (1e9, "ns"),
            };
            join(value * factor * scale, unit)
        }
        Quantity::Memory(factor) => {
            let bytes = magnitude * factor;
            let (scale, unit) = match bytes {
                b if b >= 1_073_741_824.0 => (1_073_741_824.0, "GiB"),
                b if b >= 1_048_576.0 || b == 0.0 => (1_048_576.0, "MiB"),
                b if b >= 1024.0 => (1024.0, "KiB"),
                _ => (1.0, "B"),
            };
            join(value * factor / scale, unit)
        }
        Quantity::Other if magnitude >= 10_000.0 => {
            let (number, prefix) = with_prefix(value);
            {
                let space = if prefix.is_empty() || unit.is_empty() { "" } else { " " };
                join(number, &format!("{prefix}{space}{unit}"))
            }
        }
        Quantity::Other => join(value, unit),
    }
}

/// A number below 1000 and the SI prefix with which it is `value`.
fn with_prefix(value: f64) -> (f64, &'static str) {
    match value.abs() {
        n if n >= 999.5e6 => (value / 1e9, "G"),
        n if n >= 999.5e3 => (value / 1e6, "M"),
        n if n >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    }
}

/// `value` with three significant digits, and no exponent from 0.000 1 upwards.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        n if n < 0.000_1 => format!("{value:.2e}"),
        n if n < 0.000_999_5 => format!("{value:.6}"),
        n if n < 0.009_995 => format!("{value:.5}"),
        n if n < 0.099_95 => format!("{value:.4}"),
        n if n < 0.999_5 => format!("{value:.3}"),
        n if n < 9.995 => format!("{value:.2}"),
        n if n < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Which bound of the true value a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bound {
    pub(crate) is_lower: bool,
    pub(crate) is_upper: bool,
}

impl Bound {
    /// Of the figure `metric` of a sample.
    pub(crate) fn of(sample: &Sample, metric: &str) -> Self {
        let [is_lower, is_upper] = [&sample.lower_bounds, &sample.upper_bounds]
            .map(|names| names.iter().any(|it| it == metric));
        Self { is_lower, is_upper }
    }

    /// Of a value that is computed from two others.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            is_lower: self.is_lower || other.is_lower,
            is_upper: self.is_upper || other.is_upper,
        }
    }

    /// `≥` for a lower bound, `≤` for an upper one, `≈` if it is not known which, and nothing for a value that is none.
    pub(crate) fn sign(self) -> &'static str {
        match (self.is_lower, self.is_upper) {
            (false, false) => "",
            (true, false) => "≥",
            (false, true) => "≤",
            (true, true) => "≈",
        }
    }

    /// The sign and a thin space before a value.
    pub(crate) fn mark(self) -> String {
        let sign = self.sign();
        if sign.is_empty() { String::new() } else { format!("{sign}{THIN_SPACE}") }
    }
}

/// `†` after values of disturbed samples.
pub(crate) fn disturbed_mark(is_disturbed: bool) -> &'static str {
    if is_disturbed { "†" } else { "" }
}

/// `1 sample`, `2 samples`.
pub(crate) fn counted(n: usize, one: &str, several: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_significant_digits_and_a_unit_of_their_size() {
        let expected = [
            (23_345_678.0, "1/s", "23.3 M/s"),
            (999.7, "responses/s", "1.00 k/s"),
            (12_345.0, "us", "12.3 ms"),
            (0.4, "ms", "400 µs"),
            (2.5, "s", "2.50 s"),
            (0.0, "us", "0 s"),
            (45.0, "MiB", "45.0 MiB"),
            (2048.0, "MiB", "2.00 GiB"),
            (0.9876, "", "0.988"),
            (87.5, "%", "87.5 %"),
            (64_000.0, "switches", "64.0 k switches"),
            (0.000_012, "", "1.20e-5"),
        ];
        for (number, unit, text) in expected {
            assert_eq!(value(number, unit).replace(THIN_SPACE, " "), text);
        }
        assert_eq!(tick(20_000.0, "1/s").replace(THIN_SPACE, " "), "20 k/s");
        assert_eq!(value(f64::NAN, "s"), "none");
    }
}
