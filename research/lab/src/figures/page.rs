//! The page with every figure. It refers to no other file.

use super::report::FigureReport;
use super::row::{LASTS, Row};
use super::show;
use crate::report::{Lines, bar_chart, escaped, frame, line_chart, span_chart};

/// Renders the page of a report.
pub(super) fn page(report: &FigureReport) -> String {
    let paper = report.scale.paper();
    let head = paper.head(&report.commit);
    let mut body = format!(
        "<pre>{}{}</pre>\n<h2>What the paper states</h2>\n<pre>{}</pre>\n",
        if report.complete {
            ""
        } else {
            "not complete\n"
        },
        escaped(&head),
        escaped(&show::claims(report))
    );
    for figure in paper.titles() {
        let rows = report.rows.iter();
        let rows: Vec<&Row> = rows
            .filter(|row| row.detail.figure == figure.name)
            .collect();
        let text = show::figure(figure, report);
        let (title, rest) = text.split_once('\n').unwrap_or((&text, ""));
        if rows.is_empty() && rest.is_empty() {
            continue;
        }
        body.push_str(&format!("<h2>{}</h2>\n", escaped(title)));
        for (caption, rows) in panels(&rows) {
            body.push_str(&format!(
                "<h3>{}</h3>\n{}\n",
                escaped(&caption),
                plot(&rows)
            ));
        }
        body.push_str(&format!("<pre>{}</pre>\n", escaped(rest)));
    }
    let title = format!("Figures of {}, from models", paper.name());
    frame("Nearfield figures", &title, &body)
}

/// Groups the rows by panel and kind, in their order, with a caption of the panel's title, its axis
/// and the kind.
fn panels<'r>(rows: &[&'r Row]) -> Vec<(String, Vec<&'r Row>)> {
    let mut panels: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let kind = row.kind.name();
        let caption = match &*row.detail.panel {
            "" => format!("{} ({kind})", row.detail.y.axis()),
            panel => format!("{panel}: {} ({kind})", row.detail.y.axis()),
        };
        match panels.iter_mut().find(|(other, _)| *other == caption) {
            Some((_, rows)) => rows.push(row),
            None => panels.push((caption, vec![row])),
        }
    }
    panels
}

/// Draws lines, or bars if no peer has more than a point, or spans.
fn plot(rows: &[&Row]) -> String {
    if rows.iter().all(|row| row.detail.y.name == LASTS) {
        let span = |row: &&'_ Row| (row.detail.x.value, row.detail.x.value + row.detail.y.value);
        let spans: Vec<(&str, (f64, f64))> =
            rows.iter().map(|row| (&*row.peer, span(row))).collect();
        return span_chart(&spans);
    }
    let mut lines: Lines<'_> = Lines::new();
    for row in rows {
        let line = lines.entry(&row.peer).or_default();
        line.push((row.detail.x.value, row.detail.y.value));
    }
    if lines.values().all(|line| line.len() == 1) {
        let bars: Vec<(&str, f64)> = rows
            .iter()
            .map(|row| (&*row.peer, row.detail.y.value))
            .collect();
        return bar_chart(&bars);
    }
    match rows.first() {
        Some(first) => line_chart(&first.detail.x.axis(), &first.detail.y.axis(), &lines),
        None => String::new(),
    }
}
