//! Pictures of pgfplots.

use std::fmt::Write;

use super::super::distribution::quantile_function;
use super::super::escape::latex;
use super::super::figure_data::{FigureData, Panel, SeriesName};
use super::super::memory::{resident_mib, typical_sample};
use super::super::summary::{MetricSummary, axis_name, is_same_value};
use super::super::svg::{VariedKind, label, varied_kind};
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

/// Lines with error bars.
pub(super) fn lines(data: &FigureData<'_, '_>) -> String {
    let figure = data.figure;
    let mut options = vec![
        format!("xlabel={{{}}}", latex(figure.x.map_or("", axis_name))),
        format!("ylabel={{{}}}", y_label(data)),
    ];
    options.extend(y_mode(data));
    let content = |panel: &Panel<'_, '_>| {
        let mut plots = String::new();
        for series in &panel.series {
            let rows: Vec<_> = series
                .values(&figure.metric)
                .filter_map(|(x, metric)| {
                    Some((place(panel, x.or_else(|| panel.xs.first())?), metric))
                })
                .collect();
            if rows.is_empty() {
                continue;
            }
            plots += &error_plot(&style(&series.name, true), &rows);
        }
        plots
    };
    picture(data, &options, |panel| (x_options(panel), content(panel)))
}

/// Bars; a group for each value of `x`.
pub(super) fn bars(data: &FigureData<'_, '_>) -> String {
    let figure = data.figure;
    let mut options = vec![
        "ybar".to_owned(),
        format!("ylabel={{{}}}", y_label(data)),
        "enlarge x limits=0.2".to_owned(),
        "bar width=6pt".to_owned(),
    ];
    options.extend(y_mode(data));
    if figure.logarithmic {
        options.push("log origin=infty".to_owned());
    } else {
        options.push("ymin=0".to_owned());
    }
    if let Some(axis) = figure.x {
        options.push(format!("xlabel={{{}}}", latex(axis_name(axis))));
    }
    let content = |panel: &Panel<'_, '_>| {
        let mut plots = String::new();
        for series in &panel.series {
            let values = series.values(&figure.metric);
            let at =
                |x: Option<&AxisValue>| x.map_or_else(|| "0".to_owned(), |x| position(panel, x));
            let rows: Vec<_> = values.map(|(x, metric)| (at(x), metric)).collect();
            if rows.is_empty() {
                continue;
            }
            plots += &error_plot(&bar_style(&series.name), &rows);
        }
        plots
    };
    let ticks = |panel: &Panel<'_, '_>| {
        let labels: Vec<_> = panel.xs.iter().map(|x| format!("{{{}}}", latex(&label(x)))).collect();
        let places: Vec<_> = panel.xs.iter().map(|x| position(panel, x)).collect();
        if labels.is_empty() {
            return vec!["xtick=\\empty".to_owned()];
        }
        vec![
            format!("xtick={{{}}}", places.join(",")),
            format!("xticklabels={{{}}}", labels.join(",")),
        ]
    };
    picture(data, &options, |panel| (ticks(panel), content(panel)))
}

/// Cumulative distributions.
pub(super) fn distributions(data: &FigureData<'_, '_>) -> String {
    let figure = data.figure;
    let name = if figure.label.is_empty() { "latency" } else { &figure.label };
    let options = [
        "xmode=log".to_owned(),
        "ymin=0,ymax=1".to_owned(),
        format!("xlabel={{{} [\\ensuremath{{\\mu}}s]}}", latex(name)),
        "ylabel={share of requests}".to_owned(),
    ];
    picture(data, &options, |panel| {
        let mut plots = String::new();
        for series in &panel.series {
            for (_, cell) in &series.cells {
                let curve = quantile_function(cell.successful());
                if curve.is_empty() {
                    continue;
                }
                let points =
                    curve.iter().filter(|(_, it)| *it > 0.0).map(|(share, it)| (*it, *share));
                plots += &plain_plot(&style(&series.name, false), points.collect());
            }
        }
        (Vec::new(), plots)
    })
}

/// Resident memory over time.
pub(super) fn memory(data: &FigureData<'_, '_>) -> String {
    let mut options = vec![
        "xlabel={time since the start of the controller [s]}".to_owned(),
        "ylabel={resident memory [MiB]}".to_owned(),
    ];
    options.extend(y_mode(data));
    picture(data, &options, |panel| {
        let mut plots = String::new();
        for series in &panel.series {
            let samples = series.cells.iter().filter_map(|(_, cell)| typical_sample(cell));
            for sample in samples {
                plots += &plain_plot(&style(&series.name, false), resident_mib(sample).collect());
            }
        }
        (Vec::new(), plots)
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

/// A plot of means with their intervals.
fn error_plot(style: &str, rows: &[(String, &MetricSummary)]) -> String {
    let mut text = format!(
        "\\addplot[{style},error bars/.cd,y dir=both,y explicit,error bar style={{solid,opacity=1}}] table[x=x,y=y,y error plus=plus,y error minus=minus] {{\n\
         x y plus minus\n"
    );
    for (x, metric) in rows {
        let mean = metric.statistics().mean;
        let [low, high] = metric.interval();
        let _ = writeln!(text, "{x} {mean} {} {}", (high - mean).max(0.0), (mean - low).max(0.0));
    }
    text + "};\n"
}

/// A plot without marks, thinned to a number of points that LaTeX takes.
fn plain_plot(style: &str, points: Vec<(f64, f64)>) -> String {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.len().saturating_sub(1);
    let mut text = format!("\\addplot[{style}] table[x=x,y=y] {{\nx y\n");
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
            kind => style(name, kind == FigureKind::Lines),
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

fn style(name: &SeriesName, has_marks: bool) -> String {
    let color = color(name);
    let dash = (name.dash + name.style / COLORS.len()) % DASHES.len();
    let dash = DASHES.get(dash).copied().unwrap_or("solid");
    let mark = MARKS.get(name.style % MARKS.len()).copied().unwrap_or("*");
    let mark = if has_marks {
        format!("mark={mark},mark options={{solid,fill={color}}}")
    } else {
        "mark=none".to_owned()
    };
    format!("color={color},{dash},thick,{mark}")
}

fn y_label(data: &FigureData<'_, '_>) -> String {
    let unit = &data.figure.unit;
    let name = latex(&data.metric_name());
    if unit.is_empty() { name } else { format!("{name} [{}]", latex(unit)) }
}

fn y_mode(data: &FigureData<'_, '_>) -> Option<String> {
    data.figure.logarithmic.then(|| "ymode=log".to_owned())
}

/// Scale and labels of the varied axis.
fn x_options(panel: &Panel<'_, '_>) -> Vec<String> {
    let places: Vec<_> = panel.xs.iter().map(|x| place(panel, x)).collect();
    let labels: Vec<_> = panel.xs.iter().map(|x| format!("{{{}}}", latex(&label(x)))).collect();
    let mut options = match varied_kind(&panel.xs) {
        VariedKind::PowersOfTwo => vec!["xmode=log,log basis x=2".to_owned()],
        VariedKind::Logarithmic => vec!["xmode=log".to_owned()],
        VariedKind::Linear | VariedKind::Names => Vec::new(),
    };
    options.push(format!("xtick={{{}}}", places.join(",")));
    options.push(format!("xticklabels={{{}}}", labels.join(",")));
    options
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
