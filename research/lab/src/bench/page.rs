//! One page with every table and its plots. It refers to no other file.

use super::reading::reading;
use super::report::{BenchReport, Row, TableResult};
use super::show;
use crate::report::{LIMIT, Lines, MeasurementSetting, bar_chart, escaped, frame, line_chart};
use crate::text::grouped;

/// Renders the page of a report; `results` are its tables.
pub(super) fn page(report: &BenchReport, results: &[TableResult]) -> String {
    let mut body = String::new();
    for sweep in sweeps(results) {
        body.push_str(&format!(
            "<h2>{}</h2>\n{}\n",
            escaped(&sweep.title),
            sweep.svg
        ));
    }
    for result in results {
        let text = show::render(result);
        let (title, rest) = text.split_once('\n').unwrap_or((&text, ""));
        body.push_str(&format!(
            "<h2>{}</h2>\n{}\n<pre>{}</pre>\n<p>{}</p>\n",
            escaped(title),
            chart(result),
            escaped(rest),
            escaped(&reading(result))
        ));
    }
    let machine = &report.machine;
    let state = if report.complete {
        ""
    } else {
        " · not complete"
    };
    let head = format!(
        "<p>{} · {} cores · {} MiB · {} · huge pages: {} · commit {}{state}</p>\n\
         <p>Rates are millions of operations for each second of CPU time, medians of slices that \
         the contestants run in turn. docs/benchmarks.md explains the rest.</p>\n",
        escaped(&machine.cpu),
        machine.cores,
        grouped((machine.memory_bytes >> 20) as usize),
        escaped(&machine.kernel),
        escaped(&machine.huge_pages),
        escaped(&report.commit),
    );
    frame(
        "Nearfield benchmark",
        "Nearfield and other maps",
        &(head + &body),
    )
}

/// Draws a bar for each rate of a table.
fn chart(result: &TableResult) -> String {
    let is_map = |row: &Row| row.peer != LIMIT;
    let maps = result.rates().filter(|(row, _)| is_map(row));
    let most = maps.map(|(_, rate)| rate).fold(0.0, f64::max);
    let bars = result.rates().map(|(row, rate)| (&*row.peer, rate));
    // A limit of several times the best rate would flatten all other bars.
    let bars: Vec<(&str, f64)> = bars
        .filter(|&(name, rate)| name != LIMIT || rate < most * 4.0)
        .collect();
    bar_chart(&bars)
}

/// A plot of rates over one number that varies between tables.
struct Sweep {
    title: String,
    svg: String,
}

/// Draws one plot for each number (threads, batch, count) and each group of tables in which nothing
/// else varies.
fn sweeps(results: &[TableResult]) -> Vec<Sweep> {
    let axes: [(&str, Axis); 3] = [
        ("threads", |setting| &mut setting.threads),
        ("operations in a batch", |setting| &mut setting.batch),
        ("number of keys", |setting| &mut setting.count),
    ];
    let mut sweeps = Vec::new();
    for (axis, number) in axes {
        let mut groups: Vec<(MeasurementSetting, Lines<'_>)> = Vec::new();
        for result in results {
            let mut rest = result.setting();
            // Settings that differ in this number only belong to one plot.
            let x = std::mem::take(number(&mut rest));
            let position = groups.iter().position(|(setting, _)| *setting == rest);
            let position = position.unwrap_or_else(|| {
                groups.push((rest, Lines::new()));
                groups.len() - 1
            });
            for (row, rate) in result.rates().filter(|(row, _)| row.peer != LIMIT) {
                let line = groups[position].1.entry(&*row.peer).or_default();
                line.push((x as f64, rate));
            }
        }
        let varied = |lines: &Lines<'_>| lines.values().any(|line| line.len() > 1);
        for (setting, lines) in groups.into_iter().filter(|(_, lines)| varied(lines)) {
            sweeps.push(Sweep {
                title: format!(
                    "{} · mix {} · {}, by {axis}",
                    setting.keys, setting.mix, setting.distribution
                ),
                svg: line_chart(axis, "Mops", &lines),
            });
        }
    }
    sweeps
}

/// Accessor of the varying number in a setting.
type Axis = fn(&mut MeasurementSetting) -> &mut usize;

#[cfg(test)]
mod tests {
    use super::super::report::tests::result;
    use super::*;
    use crate::harness::MachineProperties;
    use crate::workload::Mix;

    #[test]
    fn a_page_holds_everything_itself() {
        let mut report = BenchReport::new("a<b".to_owned(), MachineProperties::here());
        let mut results = vec![result(Mix::YcsbC, [18.2, 2.0, 6.0, 91.0]); 3];
        results[1].table.batch = 64;
        results[2].table.batch = 1;
        results.iter().for_each(|result| report.add(result));
        let page = page(&report, &results);
        assert!(page.contains("a&lt;b") && page.contains("not complete"));
        assert_eq!(page.matches("<svg").count(), 4, "three tables and a sweep");
        assert!(page.contains("by operations in a batch"));
        assert!(
            !page
                .replace("http://www.w3.org/2000/svg", "")
                .contains("http")
        );
    }
}
