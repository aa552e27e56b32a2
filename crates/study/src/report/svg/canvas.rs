//! A picture with two axes.

use std::fmt::Write;

use super::super::escape::html;
use super::{COLORS, MARKERS};
use sluice_bench::html::Scale;

/// Width of a character of the labels, at most, in units of the picture.
pub(super) const CHARACTER: f64 = 7.6;

/// What the text alternative of a picture says.
pub(super) struct Description<'c> {
    /// Unique in the page.
    pub(super) id: &'c str,
    pub(super) title: String,
    /// What can be read from it, in a sentence.
    pub(super) text: String,
}

/// A picture that is drawn.
pub(super) struct Canvas {
    pub(super) size: [f64; 2],
    body: String,
}

/// The place of the axes: left, right, top and bottom margin.
pub(super) type Margins = [f64; 4];

impl Canvas {
    pub(super) fn new(size: [f64; 2]) -> Self {
        Self { size, body: String::new() }
    }

    /// The scales with the coordinates of the area within the margins.
    pub(super) fn area(&self, margins: Margins, x: Scale, y: Scale) -> [Scale; 2] {
        let [left, right, top, bottom] = margins;
        let [width, height] = self.size;
        [x.over([left, width - right]), y.over([height - bottom, top])]
    }

    /// Labels and lines across at the values of `y`, and its name at the left.
    pub(super) fn y_axis(&mut self, [x, y]: [Scale; 2], ticks: &[(f64, String)], name: &str) {
        let ([x0, x1], [y0, y1]) = (x.coordinates(), y.coordinates());
        for (value, label) in ticks {
            let at = y.at(*value);
            self.segment("grid", [x0, at], [x1, at]);
            self.text([x0 - 6.0, at + 4.5], "end", label);
        }
        let middle = y0.midpoint(y1);
        let name = html(&shortened(name, (y0 - y1).abs()));
        let _ = write!(
            self.body,
            r#"<text class="name" x="14" y="{middle:.1}" text-anchor="middle" transform="rotate(-90 14 {middle:.1})">{name}</text>"#
        );
    }

    /// Labels and small lines at the values of `x`, and its name below.
    pub(super) fn x_axis(&mut self, [x, y]: [Scale; 2], ticks: &[(f64, String)], name: &str) {
        let ([x0, x1], [y0, _]) = (x.coordinates(), y.coordinates());
        for (value, label) in ticks {
            let at = x.at(*value);
            self.segment("axis", [at, y0], [at, y0 + 4.0]);
            self.text([at, y0 + 18.0], "middle", label);
        }
        self.segment("axis", [x0, y0], [x1, y0]);
        let name = shortened(name, x1 - x0 + 40.0);
        self.classed_text("name", [x0.midpoint(x1), self.size[1] - 6.0], "middle", &name);
    }

    pub(super) fn segment(&mut self, class: &str, from: [f64; 2], to: [f64; 2]) {
        let ([x1, y1], [x2, y2]) = (from, to);
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    pub(super) fn text(&mut self, at: [f64; 2], anchor: &str, text: &str) {
        self.classed_text("", at, anchor, text);
    }

    pub(super) fn classed_text(&mut self, class: &str, [x, y]: [f64; 2], anchor: &str, text: &str) {
        let text = html(text);
        let class = if class.is_empty() { String::new() } else { format!(r#" class="{class}""#) };
        let _ = write!(
            self.body,
            r#"<text{class} x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    /// A line through `points`, in coordinates.
    pub(super) fn line(&mut self, class: &str, points: &[[f64; 2]], tooltip: &str) {
        let mut path = String::new();
        for (number, [x, y]) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
        }
        let tooltip = title(tooltip);
        let _ = write!(self.body, r#"<path class="line {class}" d="{path}">{tooltip}</path>"#);
    }

    /// An interval at `x` with small bars at its ends.
    pub(super) fn interval(&mut self, class: &str, x: f64, [y0, y1]: [f64; 2]) {
        if (y0 - y1).abs() < 0.5 {
            return;
        }
        let _ = write!(
            self.body,
            r#"<path class="interval {class}" d="M{x:.1} {y0:.1}V{y1:.1}M{l:.1} {y0:.1}h6M{l:.1} {y1:.1}h6"/>"#,
            l = x - 3.0
        );
    }

    /// An interval at `y`, across.
    pub(super) fn interval_across(&mut self, class: &str, y: f64, [x0, x1]: [f64; 2]) {
        if (x0 - x1).abs() < 0.5 {
            return;
        }
        let _ = write!(
            self.body,
            r#"<path class="interval {class}" d="M{x0:.1} {y:.1}H{x1:.1}M{x0:.1} {t:.1}v6M{x1:.1} {t:.1}v6"/>"#,
            t = y - 3.0
        );
    }

    pub(super) fn marker(&mut self, style: usize, at: [f64; 2], tooltip: &str) {
        self.body += &marker(style, at, tooltip);
    }

    /// A filled rectangle with a tooltip.
    pub(super) fn rectangle(
        &mut self,
        class: &str,
        [x, y]: [f64; 2],
        [width, height]: [f64; 2],
        tooltip: &str,
    ) {
        let (width, tooltip) = (width.max(0.5), title(tooltip));
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}">{tooltip}</rect>"#
        );
    }

    /// The picture with its text alternative.
    pub(super) fn finish(self, description: &Description<'_>) -> String {
        let Description { id, title, text } = description;
        let [title, text] = [title, text].map(|it| html(it));
        let [width, height] = self.size;
        format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\
             <title id=\"{id}-title\">{title}</title><desc id=\"{id}-desc\">{text}</desc>{}</svg>\n",
            self.body
        )
    }
}

fn title(tooltip: &str) -> String {
    if tooltip.is_empty() { String::new() } else { format!("<title>{}</title>", html(tooltip)) }
}

/// `text`, or its beginning if it is wider than `width` units.
pub(super) fn shortened(text: &str, width: f64) -> String {
    let mut used = 0.0;
    let mut shortened = String::new();
    for c in text.chars() {
        used += CHARACTER;
        if used > width {
            shortened.push('…');
            break;
        }
        shortened.push(c);
    }
    shortened
}

/// The width of `text` at most, in units of the picture.
pub(super) fn width_of(text: &str) -> f64 {
    f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX)) * CHARACTER
}

/// A marker with the shape and color of a style.
pub(super) fn marker(style: usize, [x, y]: [f64; 2], tooltip: &str) -> String {
    let shape = match style % MARKERS {
        0 => "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0",
        1 => "m-4-4h8v8h-8z",
        2 => "m0-5.5l5 9h-10z",
        3 => "m0-5.5l5 5.5l-5 5.5l-5-5.5z",
        4 => "m0 5.5l5-9h-10z",
        5 => "m-5-1.7h3.3v-3.3h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3z",
        _ => "m0-6l1.6 4h4.2l-3.4 2.7l1.2 4.3l-3.6-2.5l-3.6 2.5l1.2-4.3l-3.4-2.7h4.2z",
    };
    let tooltip = title(tooltip);
    format!(
        r#"<path class="marker c{}" d="M{x:.1} {y:.1}{shape}">{tooltip}</path>"#,
        style % COLORS
    )
}
