//! A diagram with two axes as inline SVG.

use std::fmt::Write;

use super::{Scale, escape};

/// Size of the picture, in its own units.
const SIZE: [f64; 2] = [640.0, 300.0];

/// Space for labels at the left, right, top and bottom.
const MARGINS: [f64; 4] = [96.0, 20.0, 12.0, 44.0];

/// A label of an axis at a value.
pub(super) type Tick = (f64, String);

/// What the text alternative of a diagram says.
pub(super) struct Caption<'c> {
    /// Unique in the page.
    pub(super) id: String,
    pub(super) title: &'c str,
    /// What can be read from it, in a sentence.
    pub(super) description: String,
}

/// A diagram.
pub(super) struct Chart<'c> {
    caption: Caption<'c>,
    x: Scale,
    y: Scale,
    body: String,
}

impl<'c> Chart<'c> {
    /// A diagram with two axes and the labels along them.
    pub(super) fn new(
        caption: Caption<'c>,
        (x, x_ticks): (Scale, Vec<Tick>),
        (y, y_ticks): (Scale, Vec<Tick>),
        names: [&str; 2],
    ) -> Self {
        let [left, right, top, bottom] = MARGINS;
        let x = x.over([left, SIZE[0] - right]);
        let y = y.over([SIZE[1] - bottom, top]);
        let mut chart = Self { caption, x, y, body: String::new() };
        let ([x0, x1], [y0, y1]) = (x.coordinates(), y.coordinates());
        for (value, label) in y_ticks {
            let at = y.at(value);
            chart.segment("grid", [x0, at], [x1, at]);
            chart.label([x0 - 6.0, at + 4.0], "end", &label);
        }
        for (value, label) in x_ticks {
            chart.label([x.at(value), y0 + 16.0], "middle", &label);
        }
        chart.segment("axis", [x0, y0], [x1, y0]);
        chart.label([x0.midpoint(x1), SIZE[1] - 6.0], "middle", names[0]);
        let middle = y0.midpoint(y1);
        let name = escape(names[1]);
        // Writing to a string does not fail.
        let _ = write!(
            chart.body,
            r#"<text x="14" y="{middle:.1}" text-anchor="middle" transform="rotate(-90 14 {middle:.1})">{name}</text>"#
        );
        chart
    }

    fn segment(&mut self, class: &str, from: [f64; 2], to: [f64; 2]) {
        let ([x1, y1], [x2, y2]) = (from, to);
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    fn label(&mut self, [x, y]: [f64; 2], anchor: &str, text: &str) {
        let text = escape(text);
        let _ = write!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    /// A label just above the point (`x`, `y`), in values.
    pub(super) fn annotate(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let (x, y) = (self.x.at(x), self.y.at(y) - 6.0);
        self.label([x, y.max(MARGINS[2] + 8.0)], anchor, text);
    }

    /// A line across the diagram at the height `y`.
    pub(super) fn reference(&mut self, y: f64) {
        let at = self.y.at(y);
        let [x0, x1] = self.x.coordinates();
        self.segment("reference", [x0, at], [x1, at]);
    }

    /// A line through `points`.
    pub(super) fn line(&mut self, class: &str, points: &[[f64; 2]]) {
        let points =
            points.iter().map(|&[x, y]| format!("{:.1},{:.1}", self.x.at(x), self.y.at(y)));
        let points: Vec<_> = points.collect();
        let _ = write!(self.body, r#"<polyline class="{class}" points="{}"/>"#, points.join(" "));
    }

    /// A dot at each of `points`, with a tooltip.
    pub(super) fn dots(&mut self, class: &str, points: &[([f64; 2], String)]) {
        for ([x, y], tooltip) in points {
            let (x, y, tooltip) = (self.x.at(*x), self.y.at(*y), escape(tooltip));
            let _ = write!(
                self.body,
                r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="3.5"><title>{tooltip}</title></circle>"#
            );
        }
    }

    /// A bar from the axis to the height `y`, between `xs`, with a tooltip.
    pub(super) fn bar(&mut self, class: &str, xs: [f64; 2], y: f64, tooltip: &str) {
        let [x0, x1] = xs.map(|x| self.x.at(x));
        let (bottom, top) = (self.y.coordinates()[0], self.y.at(y));
        let (width, height, tooltip) = ((x1 - x0).max(0.5), bottom - top, escape(tooltip));
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x0:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}"><title>{tooltip}</title></rect>"#
        );
    }

    /// A shaded area over the whole height or width: between `xs` and `ys`.
    pub(super) fn band(&mut self, xs: [f64; 2], ys: [f64; 2]) {
        let ([x0, x1], [y0, y1]) = (xs.map(|x| self.x.at(x)), ys.map(|y| self.y.at(y)));
        let (width, height) = ((x1 - x0).max(1.0), (y0 - y1).max(1.0));
        let _ = write!(
            self.body,
            r#"<rect class="band" x="{x0:.1}" y="{y1:.1}" width="{width:.1}" height="{height:.1}"/>"#
        );
    }

    /// The range of values of both axes.
    pub(super) fn ranges(&self) -> [[f64; 2]; 2] {
        [self.x.values(), self.y.values()]
    }

    /// The figure with its caption; `note` explains how to read it.
    pub(super) fn figure(self, note: &str) -> String {
        let Caption { id, title, description } = self.caption;
        let [title, description, note] = [title, &description, note].map(escape);
        let [width, height] = SIZE;
        format!(
            r#"<figure><figcaption>{title}<span>{note}</span></figcaption><svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{id}-title {id}-desc"><title id="{id}-title">{title}</title><desc id="{id}-desc">{description}</desc>{}</svg></figure>
"#,
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_a_title_and_a_description_and_escapes_them() {
        let axis = || (Scale::from_zero(1.0), Vec::new());
        let caption =
            Caption { id: "a".to_owned(), title: "Rate <1>", description: "5 & 6".to_owned() };
        let figure = Chart::new(caption, axis(), axis(), ["x", "y"]).figure("note");
        assert!(figure.contains(r#"role="img" aria-labelledby="a-title a-desc""#), "{figure}");
        assert!(figure.contains(r#"<title id="a-title">Rate &lt;1&gt;</title>"#), "{figure}");
        assert!(figure.contains(r#"<desc id="a-desc">5 &amp; 6</desc>"#), "{figure}");
    }
}
