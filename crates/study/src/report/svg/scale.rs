//! The axis of the values that are varied.

use sluice_bench::html::Scale;

use crate::definition::AxisValue;

/// The axis of the values that are varied.
#[derive(Debug)]
pub(super) struct VariedAxis {
    pub(super) scale: Scale,
    kind: VariedKind,
    values: Vec<AxisValue>,
}

/// How the values of a varied axis are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VariedKind {
    /// Powers of two, at equal distances.
    PowersOfTwo,
    /// Logarithmic.
    Logarithmic,
    /// Linear.
    Linear,
    /// In their order.
    Names,
}

/// How `values` are placed along their axis.
pub(crate) fn varied_kind(values: &[AxisValue]) -> VariedKind {
    let numbers: Option<Vec<f64>> = values.iter().map(AxisValue::as_number).collect();
    let Some(numbers) = numbers.filter(|numbers| numbers.len() > 1) else {
        return VariedKind::Names;
    };
    let min = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let max = numbers.iter().copied().fold(0.0, f64::max);
    let is_power = |n: &f64| *n > 0.0 && (n.log2() - n.log2().round()).abs() < 1e-9;
    match () {
        () if min > 0.0 && max / min > 8.0 && numbers.iter().all(is_power) => {
            VariedKind::PowersOfTwo
        }
        () if min > 0.0 && max / min >= 50.0 => VariedKind::Logarithmic,
        () => VariedKind::Linear,
    }
}

impl VariedAxis {
    pub(super) fn new(values: &[AxisValue]) -> Self {
        let kind = varied_kind(values);
        let numbers: Vec<_> = values.iter().filter_map(AxisValue::as_number).collect();
        let min = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let max = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let scale = match kind {
            VariedKind::PowersOfTwo | VariedKind::Logarithmic => {
                let margin = (max / min).powf(0.04);
                Scale::logarithmic(min / margin, max * margin)
            }
            VariedKind::Linear => {
                let margin = (max - min) * 0.04;
                Scale::linear(min - margin, max + margin)
            }
            VariedKind::Names => {
                let n = u32::try_from(values.len().max(1)).unwrap_or(u32::MAX);
                Scale::linear(-0.5, f64::from(n) - 0.5)
            }
        };
        Self { scale, kind, values: values.to_vec() }
    }

    /// The same axis between two coordinates.
    pub(super) fn over(self, coordinates: [f64; 2]) -> Self {
        Self { scale: self.scale.over(coordinates), ..self }
    }

    /// The place of `value` on the scale.
    pub(super) fn place(&self, value: &AxisValue) -> f64 {
        let number = value.as_number().filter(|_| self.kind != VariedKind::Names);
        number.unwrap_or_else(|| {
            let at =
                self.values.iter().position(|it| super::super::summary::is_same_value(it, value));
            f64::from(u32::try_from(at.unwrap_or_default()).unwrap_or(u32::MAX))
        })
    }

    /// The values that are labelled, with their labels, without overlapping in a width of `per_character` units.
    pub(super) fn ticks(&self, per_character: f64) -> Vec<(f64, String)> {
        let labels = self.values.iter().map(|value| (self.place(value), label(value)));
        let mut free = f64::NEG_INFINITY;
        let mut fits = |(place, text): &(f64, String)| {
            let n = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
            let half = f64::from(n) * per_character / 2.0;
            let at = self.scale.at(*place);
            let fits = at - half >= free;
            if fits {
                free = at + half + per_character;
            }
            fits
        };
        labels.filter(|it| fits(it)).collect()
    }
}

/// A value as the label of an axis: `64`, `10 k`, `leafspine`.
pub(crate) fn label(value: &AxisValue) -> String {
    match value.as_number() {
        Some(number) if number >= 10_000.0 && !(number.log2().fract() == 0.0) => {
            super::super::format::tick(number, "")
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integers(values: &[u64]) -> Vec<AxisValue> {
        values.iter().map(|n| AxisValue::Integer(*n)).collect()
    }

    #[test]
    fn powers_of_two_have_equal_distances_and_names_their_order() {
        assert_eq!(varied_kind(&integers(&[1, 2, 4, 8, 16])), VariedKind::PowersOfTwo);
        assert_eq!(varied_kind(&integers(&[1, 2, 4, 8])), VariedKind::Linear);
        assert_eq!(varied_kind(&integers(&[100, 1000, 10_000])), VariedKind::Logarithmic);
        assert_eq!(varied_kind(&[AxisValue::Text("0,1".into())]), VariedKind::Names);
        let names = [AxisValue::Text("a".into()), AxisValue::Text("b".into())];
        let axis = VariedAxis::new(&names);
        assert!((axis.place(&names[1]) - 1.0).abs() < 1e-9);
    }
}
