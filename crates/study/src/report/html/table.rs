//! Tables of HTML that scroll within themselves.

use super::super::escape::html;

/// A cell of a table.
#[derive(Debug, Clone)]
pub(super) enum TableCell {
    /// Names the row.
    Head(String),
    Text(String),
    /// Aligned with the numbers above and below.
    Number(String),
    /// Names of a color that is not the only sign.
    Failed(String),
    /// HTML that is escaped already.
    Markup(String),
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    caption: String,
    /// Whether the caption repeats the heading above, and is for screen readers only.
    is_caption_hidden: bool,
    headings: Vec<String>,
    rows: Vec<Vec<TableCell>>,
}

impl Table {
    pub(super) fn new(caption: &str, headings: impl IntoIterator<Item = String>) -> Self {
        let headings = headings.into_iter().collect();
        Self { caption: caption.to_owned(), is_caption_hidden: false, headings, rows: Vec::new() }
    }

    /// The table whose caption is for screen readers only, since a heading says the same.
    pub(super) fn below_heading(self) -> Self {
        Self { is_caption_hidden: true, ..self }
    }

    pub(super) fn row(&mut self, cells: Vec<TableCell>) {
        self.rows.push(cells);
    }

    /// The table; columns are aligned as their cells in the first row with such a cell.
    pub(super) fn finish(self) -> String {
        let is_number = |column: usize| {
            self.rows.iter().any(|row| matches!(row.get(column), Some(TableCell::Number(_))))
        };
        let heading = |(column, text): (usize, &String)| {
            let class = if is_number(column) { " class=\"number\"" } else { "" };
            format!("<th scope=\"col\"{class}>{}</th>", html(text))
        };
        let headings: String = self.headings.iter().enumerate().map(heading).collect();
        let row = |cells: &Vec<TableCell>| {
            let cells: String = cells.iter().map(cell).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let rows: String = self.rows.iter().map(row).collect();
        let caption = html(&self.caption);
        let hidden = if self.is_caption_hidden { " class=\"hidden\"" } else { "" };
        format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\n<table>\n<caption{hidden}>{caption}</caption>\n\
             <thead><tr>{headings}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
        )
    }
}

fn cell(cell: &TableCell) -> String {
    match cell {
        TableCell::Head(text) => format!("<th scope=\"row\">{}</th>", html(text)),
        TableCell::Text(text) => format!("<td>{}</td>", html(text)),
        TableCell::Number(text) => format!("<td class=\"number\">{}</td>", html(text)),
        TableCell::Failed(text) => format!("<td class=\"failed\">{}</td>", html(text)),
        TableCell::Markup(markup) => format!("<td>{markup}</td>"),
    }
}

/// Headings from texts.
pub(super) fn headings<const N: usize>(texts: [&str; N]) -> impl Iterator<Item = String> {
    texts.into_iter().map(str::to_owned)
}
