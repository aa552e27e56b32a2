//! Maps values of a diagram to coordinates, and chooses the round values that are labelled.

/// Most labels along an axis.
const TICKS_MAX: usize = 12;

/// Maps values to a range of coordinates.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    kind: ScaleKind,
    values: [f64; 2],
    /// Those of the lowest and the highest value.
    coordinates: [f64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScaleKind {
    Linear,
    Logarithmic,
}

impl Scale {
    /// From 0 to a round number of at least `max`; to 1 if all values are 0.
    pub fn from_zero(max: f64) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = round_step(max);
        Self::linear(0.0, (max / step - 1e-9).ceil() * step)
    }

    /// From `min` to `max`.
    pub fn linear(min: f64, max: f64) -> Self {
        Self { kind: ScaleKind::Linear, values: [min, max], coordinates: [0.0, 1.0] }
    }

    /// Logarithmic, from `min` to `max`, which are greater than 0.
    pub fn logarithmic(min: f64, max: f64) -> Self {
        Self { kind: ScaleKind::Logarithmic, values: [min, max], coordinates: [0.0, 1.0] }
    }

    /// Logarithmic, from 1, 2 or 5 times a power of ten below `min` to one above `max`.
    pub fn round_logarithmic(min: f64, max: f64) -> Self {
        let min = if min > 0.0 { min } else { max.max(1e-9) / 1e3 };
        let (min, max) = (min / 1.05, max.max(min) * 1.05);
        let [low, high] = [min, max].map(|end| 10f64.powf(end.log10().floor()));
        let below = [5.0, 2.0, 1.0].map(|n| n * low).into_iter().find(|&n| n <= min);
        let above = [1.0, 2.0, 5.0, 10.0].map(|n| n * high).into_iter().find(|&n| n >= max);
        Self::logarithmic(below.unwrap_or(low), above.unwrap_or(high * 10.0))
    }

    /// The same scale with other coordinates of its ends.
    #[must_use]
    pub fn over(self, coordinates: [f64; 2]) -> Self {
        Self { coordinates, ..self }
    }

    /// The lowest and the highest value.
    pub fn values(&self) -> [f64; 2] {
        self.values
    }

    /// Their coordinates.
    pub fn coordinates(&self) -> [f64; 2] {
        self.coordinates
    }

    /// The coordinate of `value`, which is moved into the range.
    pub fn at(&self, value: f64) -> f64 {
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
    pub fn ticks(&self, distance: f64) -> Vec<f64> {
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
                let factors: &[f64] = if decades <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
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
    pub fn thinned(&self, values: Vec<f64>, distance: f64) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_labels() {
        let ticks = |scale: Scale| scale.over([0.0, 400.0]).ticks(10.0);
        assert_eq!(ticks(Scale::from_zero(23.0)), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(ticks(Scale::from_zero(100.0)).last(), Some(&100.0));
        assert_eq!(
            ticks(Scale::round_logarithmic(30.0, 800.0)),
            [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
        assert_eq!(ticks(Scale::round_logarithmic(3.0, 5e6)).first(), Some(&10.0));
        assert!(ticks(Scale::from_zero(0.0)).len() > 1);
        assert!(ticks(Scale::round_logarithmic(0.0, 0.0)).iter().all(|it| it.is_finite()));
    }

    #[test]
    fn values_are_mapped_into_the_range() {
        let linear = Scale::linear(0.0, 10.0).over([100.0, 200.0]);
        for (value, at) in [(-1.0, 100.0), (0.0, 100.0), (5.0, 150.0), (99.0, 200.0)] {
            assert!((linear.at(value) - at).abs() < 1e-9, "{value}");
        }
        let logarithmic = Scale::logarithmic(10.0, 1e4).over([0.0, 3.0]);
        assert!((logarithmic.at(100.0) - 1.0).abs() < 1e-9);
    }
}
