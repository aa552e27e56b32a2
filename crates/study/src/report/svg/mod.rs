//! Figures as inline SVG.

mod bars;
mod canvas;
mod distribution;
mod lines;
mod memory;
mod scale;

pub(super) use scale::{VariedKind, label, varied_kind};

use super::escape::html;
use super::figure_data::{FigureData, Panel, SeriesName};
use crate::definition::FigureKind;

/// Number of colors, of markers and of patterns of lines in the style sheet.
const COLORS: usize = 8;
const MARKERS: usize = 7;
const DASHES: usize = 5;

/// The size of a picture, whose labels are always of the same size: so there is one of its own for narrow screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// The only picture of a figure.
    Wide,
    /// The same on a telephone.
    Narrow,
    /// One of several.
    Panel,
}

impl Format {
    const fn width(self) -> f64 {
        match self {
            Self::Wide => 560.0,
            Self::Narrow => 350.0,
            Self::Panel => 380.0,
        }
    }

    /// Width and height, unless the height depends on the content.
    const fn size(self) -> [f64; 2] {
        let height = match self {
            Self::Wide => 330.0,
            Self::Narrow | Self::Panel => 290.0,
        };
        [self.width(), height]
    }
}

/// The pictures of a figure, one for each panel; none if it is a table or has no values. A single one is there twice, of which the style sheet shows
/// one.
pub(super) fn pictures(data: &FigureData<'_, '_>, id: &str) -> Vec<String> {
    if !data.has_values() {
        return Vec::new();
    }
    let draw = |format: Format, panel: &Panel<'_, '_>, id: &str| match data.figure.kind {
        FigureKind::Lines => lines::draw(data, panel, (format, id)),
        FigureKind::Bars => bars::draw(data, panel, (format, id)),
        FigureKind::Cdf => distribution::draw(data, panel, (format, id)),
        FigureKind::Memory => memory::draw(data, panel, (format, id)),
        FigureKind::Table | FigureKind::Trials => String::new(),
    };
    let panel = |(number, panel)| {
        let id = format!("{id}-panel{number}");
        if data.panels.len() > 1 {
            return draw(Format::Panel, panel, &id);
        }
        let wide = draw(Format::Wide, panel, &id);
        if wide.is_empty() {
            return wide;
        }
        let narrow = draw(Format::Narrow, panel, &format!("{id}-narrow"));
        format!("<div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div>")
    };
    let pictures = (1..).zip(&data.panels).map(panel);
    pictures.filter(|picture| !picture.is_empty()).collect()
}

/// The legend of lines, as a list; empty for figures with names at their values.
pub(super) fn legend(data: &FigureData<'_, '_>) -> String {
    if !matches!(data.figure.kind, FigureKind::Lines | FigureKind::Cdf | FigureKind::Memory) {
        return String::new();
    }
    let has_markers = data.figure.kind == FigureKind::Lines;
    let one = |name: &SeriesName| {
        let marker =
            if has_markers { canvas::marker(name.style, [18.0, 8.0], "") } else { String::new() };
        format!(
            "<li><svg viewBox=\"0 0 36 16\" aria-hidden=\"true\"><path class=\"line {}\" d=\"M1 8H35\"/>{marker}</svg>{}</li>\n",
            if has_markers { classes(name) } else { classes_without_markers(name) },
            html(&name.label)
        )
    };
    let entries: String = data.legend.iter().map(one).collect();
    format!("<ul class=\"legend\">\n{entries}</ul>\n")
}

/// The classes of a line with markers: its color, and a pattern if the color is not enough.
fn classes(name: &SeriesName) -> String {
    // With more controllers than colors, the pattern differs, too.
    let dash = name.dash + name.style / COLORS;
    format!("c{} d{}", name.style % COLORS, dash % DASHES)
}

/// The classes of a line without markers: color and pattern.
fn classes_without_markers(name: &SeriesName) -> String {
    format!("c{} d{}", name.style % COLORS, (name.style + name.dash) % DASHES)
}

/// The title of a panel.
pub(super) fn title(data: &FigureData<'_, '_>, panel: &Panel<'_, '_>) -> String {
    let parts = [data.figure.title.as_str(), panel.title.as_str()];
    parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", ")
}
