//! Maps values to coordinates, and chooses the labels of axes.

use crate::definition::AxisValue;

/// Most labels along an axis.
const TICKS_MAX: usize = 12;

/// Maps values to a range of coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    kind: ScaleKind,
    values: [f64; 2],
    /// Those of the lowest and the highest value.
    pub(super) coordinates: [f64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScaleKind {
    Linear,
    Logarithmic,
}

impl Scale {
    /// From 0 to a round number of at least `max`.
    pub(super) fn from_zero(max: f64) -> Self {
        let max = max.max(1e-9);
        let step = round_step(max);
        Self::linear(0.0, (max / step - 1e-9).ceil() * step)
    }

    /// From `min` to `max`.
    pub(super) fn linear(min: f64, max: f64) -> Self {
        Self { kind: ScaleKind::Linear, values: [min, max], coordinates: [0.0, 1.0] }
    }

    /// Logarithmic, from `min` to `max`, which are greater than 0.
    pub(super) fn logarithmic(min: f64, max: f64) -> Self {
        Self { kind: ScaleKind::Logarithmic, values: [min, max], coordinates: [0.0, 1.0] }
    }

    /// Logarithmic, from 1, 2 or 5 times a power of ten below `min` to one above `max`.
    pub(super) fn round_logarithmic(min: f64, max: f64) -> Self {
        let min = if min > 0.0 { min } else { max.max(1e-9) / 1e3 };
        let (min, max) = (min / 1.05, max.max(min) * 1.05);
        let [low, high] = [min, max].map(|end| 10f64.powf(end.log10().floor()));
        let below = [5.0, 2.0, 1.0].map(|n| n * low).into_iter().find(|&n| n <= min);
        let above = [1.0, 2.0, 5.0, 10.0].map(|n| n * high).into_iter().find(|&n| n >= max);
        Self::logarithmic(below.unwrap_or(low), above.unwrap_or(high * 10.0))
    }

    /// The same scale with other coordinates of its ends.
    pub(super) fn over(self, coordinates: [f64; 2]) -> Self {
        Self { coordinates, ..self }
    }

    /// The coordinate of `value`, which is moved into the range.
    pub(super) fn at(&self, value: f64) -> f64 {
        let [min, max] = self.values;
        let value = value.clamp(min, max.max(min));
        let share = match self.kind {
            _ if max <= min => 0.5,
            ScaleKind::Linear => (value - min) / (max - min),
            ScaleKind::Logarithmic => (value / min).ln() / (max / min).ln(),
        };
        let [from, to] = self.coordinates;
        from + share * (to - from)
    }

    /// Round values within the range, at most one in `distance` units of the picture.
    pub(super) fn ticks(&self, distance: f64) -> Vec<f64> {
        let [min, max] = self.values;
        let mut values = Vec::new();
        match self.kind {
            ScaleKind::Linear => {
                let step = round_step(max - min);
                let mut value = (min / step - 1e-9).ceil() * step;
                while value <= max + step * 1e-6 && values.len() < TICKS_MAX {
                    values.push(value);
                    value += step;
                }
            }
            ScaleKind::Logarithmic => {
                let decades = (max / min).log10();
                let factors: &[f64] = if decades <= 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let mut power = 10f64.powf(min.log10().floor());
                while power <= max * 1.001 {
                    let all = factors.iter().map(|factor| factor * power);
                    values.extend(all.filter(|v| (min * 0.999..=max * 1.001).contains(v)));
                    power *= 10.0;
                }
            }
        }
        self.thinned(values, distance)
    }

    /// `values` without those that are closer than `distance` to the one before.
    pub(super) fn thinned(&self, values: Vec<f64>, distance: f64) -> Vec<f64> {
        let mut last: Option<f64> = None;
        let mut is_apart = |value: &f64| {
            let at = self.at(*value);
            let is_apart = last.is_none_or(|last| (at - last).abs() >= distance);
            if is_apart {
                last = Some(at);
            }
            is_apart
        };
        values.into_iter().filter(|value| is_apart(value)).collect()
    }
}

/// 1, 2 or 5 times a power of ten, about a fifth of `range`.
fn round_step(range: f64) -> f64 {
    let rough = range.max(1e-12) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

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
    fn axes_have_round_labels() {
        let ticks = |scale: Scale| Scale { coordinates: [0.0, 400.0], ..scale }.ticks(10.0);
        assert_eq!(ticks(Scale::from_zero(23.0)), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(ticks(Scale::from_zero(100.0)).last(), Some(&100.0));
        assert_eq!(
            ticks(Scale::round_logarithmic(30.0, 800.0)),
            [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
        assert!(ticks(Scale::from_zero(0.0)).len() > 1);
        assert!(ticks(Scale::round_logarithmic(0.0, 0.0)).iter().all(|it| it.is_finite()));
    }

    #[test]
    fn values_are_mapped_into_the_range() {
        let linear = Scale { coordinates: [100.0, 200.0], ..Scale::linear(0.0, 10.0) };
        for (value, at) in [(-1.0, 100.0), (0.0, 100.0), (5.0, 150.0), (99.0, 200.0)] {
            assert!((linear.at(value) - at).abs() < 1e-9, "{value}");
        }
        let logarithmic = Scale { coordinates: [0.0, 3.0], ..Scale::logarithmic(10.0, 1e4) };
        assert!((logarithmic.at(100.0) - 1.0).abs() < 1e-9);
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
