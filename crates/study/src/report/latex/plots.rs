//! Pictures of pgfplots.

use std::fmt::Write;

use super::super::distribution::quantile_function;
use super::super::escape::latex;
use super::super::figure_data::{FigureData, Panel, SeriesName};
use super::super::format::Bound;
use super::super::memory::{resident_mib, typical_sample};
use super::super::summary::{MetricSummary, is_same_value};
use super::super::svg::{VariedKind, label, varied_kind};
use super::ranges::Range;
use crate::definition::{AxisValue, FigureKind};

/// Colors of Okabe and Ito (2008), which readers with color vision deficiency can tell apart.
const COLORS: [[u8; 3]; 8] = [
    [0, 0, 0],
    [230, 159, 0],
    [0, 114, 178],
    [0, 158, 115],
    [213, 94, 0],
    [204, 121, 167],
    [86, 180, 233],
    [138, 122, 0],
];

const MARKS: [&str; 7] = ["*", "square*", "triangle*", "diamond*", "pentagon*", "x", "+"];

const DASHES: [&str; 5] = ["solid", "dashed", "dotted", "dashdotted", "densely dashed"];

/// Most points of a line.
const POINTS_MAX: usize = 200;

/// Marks along a line of many points.
const MARKS_PER_LINE: usize = 6;

/// Width of the area of a picture, in points of TeX.
const AREA_PT: f64 = 190.0;

/// Widest and narrowest bar, in points of TeX.
const BAR_PT: [f64; 2] = [1.5, 12.0];

/// Options that write ≥, ≤ or ≈ beside each point, or at the end of each bar, that has 1, 2 or 3 in the column `bound`.
const BOUND_MARKS: &str = "point meta=explicit symbolic,nodes near coords={\\ifcase\\pgfplotspointmeta\\or\\ensuremath{\\ge}\\or\\ensuremath{\\le}\\or\\ensuremath{\\approx}\\fi},\
     every node near coord/.append style={anchor=south west,xshift=2pt,inner sep=1pt,font=\\scriptsize,text=black,text opacity=1}";

/// Lines with error bars.
pub(super) fn lines(data: &FigureData<'_, '_>) -> String {
    let figure = data.figure;
    let range = Range::of_metric(data);
    let options = [
        format!("xlabel={{{}}}", latex(data.x_name())),
        format!("ylabel={{{}}}", y_label(data)),
        range.options('y'),
    ];
    let content = |panel: &Panel<'_, '_>| {
        let mut plots = String::new();
        for series in &panel.series {
            let values = series.values(&figure.metric).filter_map(|(x, metric)| {
                Some((place(panel, x.or_else(|| panel.xs.first())?), metric))
            });
            plots += &error_plot(&style(&series.name), &values.collect::<Vec<_>>(), range);
        }
        plots
    };
    picture(data, &options, |panel| (x_options(panel), content(panel)))
}

/// Bars; a group for each value of `x`.
pub(super) fn bars(data: &FigureData<'_, '_>) -> String {
    let figure = data.figure;
    let range = Range::of_metric(data);
    let mut options = vec![
        "ybar=0pt".to_owned(),
        format!("ylabel={{{}}}", y_label(data)),
        format!("bar width={:.1}pt", bar_width_pt(data)),
        range.options('y'),
    ];
    if range.is_logarithmic {
        options.push("log origin=infty".to_owned());
    }
    if figure.x.is_some() {
        options.push(format!("xlabel={{{}}}", latex(data.x_name())));
    }
    let content = |panel: &Panel<'_, '_>| {
        let mut plots = String::new();
        for series in &panel.series {
            let values = series.values(&figure.metric);
            let at =
                |x: Option<&AxisValue>| x.map_or_else(|| "0".to_owned(), |x| position(panel, x));
            let rows: Vec<_> = values.map(|(x, metric)| (at(x), metric)).collect();
            plots += &error_plot(&bar_style(&series.name), &rows, range);
        }
        plots
    };
    let ticks = |panel: &Panel<'_, '_>| {
        let mut ticks = vec![names_range(panel.xs.len())];
        if panel.xs.is_empty() {
            ticks.push("xtick=\\empty".to_owned());
        } else {
            ticks.push(labels(panel, position));
        }
        ticks
    };
    picture(data, &options, |panel| (ticks(panel), content(panel)))
}

/// The width of a bar with which all groups fit.
fn bar_width_pt(data: &FigureData<'_, '_>) -> f64 {
    let count = |n: usize| f64::from(u32::try_from(n.max(1)).unwrap_or(u32::MAX));
    let groups = data.panels.iter().map(|panel| panel.xs.len()).max().unwrap_or_default();
    let bars = data.panels.iter().map(|panel| panel.series.len()).max().unwrap_or_default();
    let [min, max] = BAR_PT;
    (0.8 * AREA_PT / count(groups) / count(bars)).clamp(min, max)
}

/// Cumulative distributions.
pub(super) fn distributions(data: &FigureData<'_, '_>) -> String {
    let figure = data.figure;
    let name = if figure.label.is_empty() { "latency" } else { &figure.label };
    let curves = |panel: &Panel<'_, '_>| -> Vec<(SeriesName, Vec<(f64, f64)>)> {
        let cells = panel.series.iter().flat_map(|series| {
            series.cells.iter().map(move |(_, cell)| (series.name.clone(), *cell))
        });
        let curves = cells.map(|(name, cell)| {
            let points = quantile_function(cell.successful()).into_iter();
            (name, points.map(|(share, it)| (it, share)).collect::<Vec<_>>())
        });
        curves.filter(|(_, points)| !points.is_empty()).collect()
    };
    let all: Vec<_> = data.panels.iter().flat_map(curves).collect();
    let latencies = all.iter().flat_map(|(_, points)| points).map(|(it, _)| *it);
    let range = Range::of(latencies, true);
    let options = [
        range.options('x'),
        "ymin=0,ymax=1".to_owned(),
        format!("xlabel={{{} [\\ensuremath{{\\mu}}s]}}", latex(name)),
        "ylabel={share of requests}".to_owned(),
    ];
    picture(data, &options, |panel| {
        let plots = curves(panel).into_iter().map(|(name, points)| {
            let points = points.into_iter().filter(|(it, _)| range.contains(*it));
            plain_plot(&name, points.collect())
        });
        (Vec::new(), plots.collect())
    })
}

/// Resident memory over time.
pub(super) fn memory(data: &FigureData<'_, '_>) -> String {
    let curves = |panel: &Panel<'_, '_>| -> Vec<(SeriesName, Vec<(f64, f64)>)> {
        let cells = panel.series.iter().flat_map(|series| {
            series.cells.iter().map(move |(_, cell)| (series.name.clone(), *cell))
        });
        let curve = |(name, cell)| Some((name, resident_mib(typical_sample(cell)?).collect()));
        cells.filter_map(curve).collect()
    };
    let all: Vec<_> = data.panels.iter().flat_map(curves).collect();
    let points = || all.iter().flat_map(|(_, points)| points);
    let range = Range::of(points().map(|(_, mib)| *mib), data.figure.logarithmic);
    let options = [
        "xlabel={time since the start of the controller [s]}".to_owned(),
        "ylabel={resident memory [MiB]}".to_owned(),
        Range::of(points().map(|(at_s, _)| *at_s), false).options('x'),
        range.options('y'),
    ];
    picture(data, &options, |panel| {
        let plots = curves(panel).into_iter().map(|(name, points)| {
            let points = points.into_iter().filter(|(_, mib)| range.contains(*mib));
            plain_plot(&name, points.collect())
        });
        (Vec::new(), plots.collect())
    })
}

/// The environment with an axis for each panel. `content` has the options of a panel, and its plots.
fn picture(
    data: &FigureData<'_, '_>,
    options: &[String],
    content: impl Fn(&Panel<'_, '_>) -> (Vec<String>, String),
) -> String {
    let mut text = String::from("\\begin{tikzpicture}\n");
    for (number, [red, green, blue]) in COLORS.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\\definecolor{{study{number}}}{{RGB}}{{{red},{green},{blue}}}");
    }
    let fixed = "width=8.5cm,height=6cm,grid=major,grid style={very thin,gray!40},legend cell align=left,legend columns=3,legend style={font=\\scriptsize,at={(0.5,-0.3)},anchor=north}";
    let all = |own: &[String]| {
        let own = options.iter().chain(own).map(String::as_str);
        std::iter::once(fixed).chain(own).collect::<Vec<_>>().join(",\n  ")
    };
    if let [panel] = data.panels.as_slice() {
        let (own, plots) = content(panel);
        let _ =
            write!(text, "\\begin{{axis}}[{}]\n{}{plots}\\end{{axis}}\n", all(&own), legend(data));
    } else {
        let rows = data.panels.len().div_ceil(2);
        let _ = writeln!(
            text,
            "\\begin{{groupplot}}[group style={{group size=2 by {rows},horizontal sep=2.2cm,vertical sep=2.2cm}}]"
        );
        for (number, panel) in (1..).zip(&data.panels) {
            let (mut own, plots) = content(panel);
            own.push(format!("title={{{}}}", latex(&panel.title)));
            let legend = if number == data.panels.len() { legend(data) } else { String::new() };
            let _ = write!(text, "\\nextgroupplot[{}]\n{legend}{plots}", all(&own));
        }
        text += "\\end{groupplot}\n";
    }
    text + "\\end{tikzpicture}\n"
}

/// A plot of means with their intervals, and marks of bounds. Values of 0 are not on a logarithmic axis: a comment names them.
fn error_plot(style: &str, rows: &[(String, &MetricSummary)], range: Range) -> String {
    let (drawn, others): (Vec<_>, Vec<_>) =
        rows.iter().partition(|(_, metric)| range.contains(metric.statistics().mean));
    let mut text = String::new();
    for (x, _) in &others {
        let _ = writeln!(text, "% At {x}, the value is 0, which a logarithmic axis does not have.");
    }
    if drawn.is_empty() {
        return text;
    }
    let has_bounds = drawn.iter().any(|(_, metric)| metric.bound != Bound::default());
    let (marks, meta, column) = if has_bounds {
        (format!(",{BOUND_MARKS}"), ",meta=bound", " bound")
    } else {
        (String::new(), "", "")
    };
    let _ = write!(
        text,
        "\\addplot[{style}{marks},error bars/.cd,y dir=both,y explicit,error bar style={{solid,opacity=1}}] table[x=x,y=y,y error plus=plus,y error minus=minus{meta}] {{\n\
         x y plus minus{column}\n"
    );
    for (x, metric) in drawn {
        let mean = metric.statistics().mean;
        let [low, high] = metric.interval().map(|bound| range.clamped(bound));
        let [plus, minus] = [high - mean, mean - low].map(|it| it.max(0.0));
        let bound = match (has_bounds, metric.bound.is_lower, metric.bound.is_upper) {
            (false, ..) => "",
            (true, false, false) => " 0",
            (true, true, false) => " 1",
            (true, false, true) => " 2",
            (true, true, true) => " 3",
        };
        let _ = writeln!(text, "{x} {mean} {plus} {minus}{bound}");
    }
    text + "};\n"
}

/// A plot with a few marks, thinned to a number of points that LaTeX takes.
fn plain_plot(name: &SeriesName, points: Vec<(f64, f64)>) -> String {
    if points.is_empty() {
        return String::new();
    }
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.len().saturating_sub(1);
    let shown = points.len() / every;
    // Marks of different lines are not at the same points.
    let repeat = (shown / MARKS_PER_LINE).max(1);
    let phase = 1 + name.style % repeat;
    let style = style(name);
    let mut text = format!(
        "\\addplot[{style},mark repeat={repeat},mark phase={phase}] table[x=x,y=y] {{\nx y\n"
    );
    for (number, (x, y)) in points.into_iter().enumerate() {
        if number % every == 0 || number == last {
            let _ = writeln!(text, "{x} {y}");
        }
    }
    text + "};\n"
}

/// The legend, whose entries do not depend on which panel has values of which series.
fn legend(data: &FigureData<'_, '_>) -> String {
    let one = |name: &SeriesName| {
        let image = match data.figure.kind {
            FigureKind::Bars => format!("area legend,{}", bar_style(name)),
            _ => style(name),
        };
        format!("\\addlegendimage{{{image}}}\n\\addlegendentry{{{}}}\n", latex(&name.label))
    };
    data.legend.iter().map(one).collect::<Vec<_>>().concat()
}

fn bar_style(name: &SeriesName) -> String {
    format!("fill={},draw=black,fill opacity=0.7", color(name))
}

fn color(name: &SeriesName) -> String {
    format!("study{}", name.style % COLORS.len())
}

/// Color, pattern and mark of a line, each of which tells the lines apart, also in print without colors.
fn style(name: &SeriesName) -> String {
    let color = color(name);
    let dash = DASHES.get((name.style + name.dash) % DASHES.len()).copied().unwrap_or("solid");
    let mark = MARKS.get(name.style % MARKS.len()).copied().unwrap_or("*");
    format!("color={color},{dash},thick,mark={mark},mark options={{solid,fill={color}}}")
}

fn y_label(data: &FigureData<'_, '_>) -> String {
    let unit = &data.figure.unit;
    let name = latex(&data.metric_name());
    if unit.is_empty() { name } else { format!("{name} [{}]", latex(unit)) }
}

/// Scale, range and labels of the varied axis.
fn x_options(panel: &Panel<'_, '_>) -> Vec<String> {
    let mut options = match varied_kind(&panel.xs) {
        VariedKind::PowersOfTwo => vec!["xmode=log,log basis x=2".to_owned()],
        VariedKind::Logarithmic => vec!["xmode=log".to_owned()],
        VariedKind::Linear => Vec::new(),
        VariedKind::Names => vec![names_range(panel.xs.len())],
    };
    options.push(labels(panel, place));
    options
}

/// The range of an axis with so many names, of which a single one has no extent.
fn names_range(names: usize) -> String {
    let last = f64::from(u32::try_from(names.max(1)).unwrap_or(u32::MAX)) - 0.5;
    format!("xmin=-0.5,xmax={last}")
}

/// The labels of the values of `x`.
fn labels(panel: &Panel<'_, '_>, at: impl Fn(&Panel<'_, '_>, &AxisValue) -> String) -> String {
    let places: Vec<_> = panel.xs.iter().map(|x| at(panel, x)).collect();
    let labels: Vec<_> = panel.xs.iter().map(|x| format!("{{{}}}", latex(&label(x)))).collect();
    format!("xtick={{{}}},\n  xticklabels={{{}}}", places.join(","), labels.join(","))
}

/// The coordinate of a value: the number itself, or its position.
fn place(panel: &Panel<'_, '_>, value: &AxisValue) -> String {
    let number = value.as_number().filter(|_| varied_kind(&panel.xs) != VariedKind::Names);
    number.map_or_else(|| position(panel, value), |it| it.to_string())
}

/// The position of a value among those of the panel.
fn position(panel: &Panel<'_, '_>, value: &AxisValue) -> String {
    let at = panel.xs.iter().position(|it| is_same_value(it, value));
    at.unwrap_or_default().to_string()
}
