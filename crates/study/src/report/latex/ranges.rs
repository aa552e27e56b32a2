//! The ranges of axes, the same in all panels of a figure.

use super::super::figure_data::FigureData;

/// Space above the greatest value of a linear axis, as a share of it.
const MARGIN: f64 = 0.05;

/// Most labels of a logarithmic axis.
const LABELS_MAX: i32 = 8;

/// The range of an axis and its scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) is_logarithmic: bool,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Range {
    /// A range that contains all values: from 0, or of whole decades. Values of 0 are not on a logarithmic axis; if there are no others, the axis is
    /// linear.
    pub(super) fn of(values: impl Iterator<Item = f64>, is_logarithmic: bool) -> Self {
        let (mut min, mut max) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            min = min.min(value);
            max = max.max(value);
        }
        if !is_logarithmic || !min.is_finite() {
            let max = if max > 0.0 { max * (1.0 + MARGIN) } else { 1.0 };
            return Self { is_logarithmic: false, min: 0.0, max };
        }
        // A hair inwards, so that a power of ten is its own end.
        let low = 10f64.powf((min.log10() + 1e-9).floor());
        let high = 10f64.powf((max.log10() - 1e-9).ceil());
        Self { is_logarithmic: true, min: low, max: if high > low { high } else { 10.0 * low } }
    }

    /// That of the metric of a figure, with its intervals.
    pub(super) fn of_metric(data: &FigureData<'_, '_>) -> Self {
        let metric = data.figure.metric.as_str();
        let series = data.panels.iter().flat_map(|panel| &panel.series);
        let values = series.flat_map(|series| {
            let values = series.values(metric);
            values.flat_map(|(_, it)| {
                let ([low, high], mean) = (it.interval(), it.statistics().mean);
                // The lower end of an interval may be below the mean by decades.
                [low.max(mean / 10.0), mean, high]
            })
        });
        Self::of(values, data.figure.logarithmic)
    }

    /// The options of an axis, `x` or `y`.
    pub(super) fn options(&self, axis: char) -> String {
        let range = format!("{axis}min={},{axis}max={}", self.min, self.max);
        if !self.is_logarithmic {
            return range;
        }
        let decades: Vec<_> = self.decades().iter().map(ToString::to_string).collect();
        format!("{axis}mode=log,{range},{axis}tickten={{{}}}", decades.join(","))
    }

    /// The powers of ten that are labelled, at most [`LABELS_MAX`]: without them, pgfplots labels fractions of powers in short ranges.
    #[expect(clippy::cast_possible_truncation, reason = "exponents of numbers are small")]
    fn decades(&self) -> Vec<i32> {
        let [low, high] = [self.min, self.max].map(|end| end.log10().round() as i32);
        let step = (high - low) / LABELS_MAX + 1;
        (low..=high).filter(|decade| (decade - low) % step == 0).collect()
    }

    /// Whether a value can be drawn.
    pub(super) fn contains(&self, value: f64) -> bool {
        !self.is_logarithmic || value > 0.0
    }

    /// A value that is drawn at the end of the axis if it is beyond.
    pub(super) fn clamped(&self, value: f64) -> f64 {
        value.clamp(self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(values: &[f64], is_logarithmic: bool) -> Range {
        Range::of(values.iter().copied(), is_logarithmic)
    }

    #[test]
    fn ranges_start_at_zero_or_have_whole_decades() {
        assert_eq!(range(&[0.0, 2.0, 10.0], false).options('y'), "ymin=0,ymax=10.5");
        assert_eq!(
            range(&[0.0, 20.0, 9000.0], true).options('y'),
            "ymode=log,ymin=10,ymax=10000,ytickten={1,2,3,4}"
        );
        assert_eq!(
            range(&[1.0, 100.0], true).options('x'),
            "xmode=log,xmin=1,xmax=100,xtickten={0,1,2}"
        );
        assert_eq!(
            range(&[100.0], true).options('y'),
            "ymode=log,ymin=100,ymax=1000,ytickten={2,3}"
        );
    }

    #[test]
    fn only_whole_powers_of_ten_are_labelled() {
        assert_eq!(range(&[2e6, 7e6], true).decades(), [6, 7]);
        assert_eq!(range(&[0.002, 1e13], true).decades(), [-3, 0, 3, 6, 9, 12]);
    }

    #[test]
    fn without_values_above_zero_an_axis_is_linear() {
        for values in [&[][..], &[0.0, 0.0], &[f64::NAN, -1.0]] {
            assert_eq!(range(values, true).options('y'), "ymin=0,ymax=1", "{values:?}");
        }
    }

    #[test]
    fn zero_is_not_on_a_logarithmic_axis_and_ends_of_intervals_are_cut() {
        let range = range(&[20.0, 30.0], true);
        assert!(!range.contains(0.0) && range.contains(25.0));
        assert!((range.clamped(-5.0) - 10.0).abs() < 1e-9);
    }
}
