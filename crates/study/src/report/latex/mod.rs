//! Figures as pgfplots pictures, tables with booktabs.

mod plots;
mod ranges;
mod tables;
mod text;

pub(crate) use text::escape;

use super::escape::latex;
use super::figure_data::FigureData;
use super::summary::StudySummary;
use crate::definition::FigureKind;

/// What a reader has to know, in the folder of the files.
const README: &str = "\
Each .tex file is a picture or a table of one figure of the report. Include it with \\input in a document with:

\\usepackage{pgfplots}
\\pgfplotsset{compat=1.17}
\\usepgfplotslibrary{groupplots}
\\usepackage{booktabs}

all.tex is a document that contains all of them; pdflatex all.tex shows them.
Error bars are the 95 % bootstrap interval of the mean, or the range of fewer than four samples.
≥ at a point, at the end of a bar or before a value of a table: a lower bound, since requests were not answered, or the load generator was the limit.
≤: an upper bound of a response time, since the load generator was the limit; ≈: it may be both.
† after a value of a table: some of its samples were disturbed. The first lines of each file say how many were, and which samples failed.
The line of a distribution ends where the median of the samples has no answer.
";

/// The files, by name.
pub(super) fn files(study: &StudySummary<'_>) -> Vec<(String, String)> {
    let mut files = vec![("README.txt".to_owned(), README.to_owned())];
    let mut document = String::from(
        "\\documentclass{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage[margin=2cm]{geometry}\n\\usepackage{pgfplots}\n\\pgfplotsset{compat=1.17}\n\
         \\usepgfplotslibrary{groupplots}\n\\usepackage{booktabs}\n\\usepackage{graphicx}\n\\begin{document}\n",
    );
    for experiment in &study.experiments {
        for (figure, name) in experiment.figures() {
            let data = FigureData::new(experiment, figure);
            if !data.has_values() {
                continue;
            }
            let content = match figure.kind {
                FigureKind::Lines => plots::lines(&data),
                FigureKind::Bars => plots::bars(&data),
                FigureKind::Cdf => plots::distributions(&data),
                FigureKind::Memory => plots::memory(&data),
                FigureKind::Table => tables::means(&data),
                FigureKind::Trials => tables::trials(&data),
            };
            let name = format!("{name}.tex");
            let title = latex(&figure.title);
            let comment =
                |text: &String| format!("% {}\n", text.replace(|c: char| c.is_control(), " "));
            let facts: String = data.disturbed.iter().chain(&data.failures).map(comment).collect();
            let section = format!(
                "\\section*{{{title}}}\n\\noindent\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{\\input{{{name}}}}}\n"
            );
            document += &section;
            files.push((name, format!("% {title}\n% Packages: see README.txt.\n{facts}{content}")));
        }
    }
    files.push(("all.tex".to_owned(), document + "\\end{document}\n"));
    files
}
