//! One page with every table and its plots, without anything outside it.

use super::plot::{chart, sweeps};
use super::reading::reading;
use super::row::Report;
use super::table::{self, grouped};
use crate::bench::TableResult;

/// The page of a report; `results` are its tables.
pub(super) fn page(report: &Report, results: &[TableResult]) -> String {
    let mut body = String::new();
    for sweep in sweeps(results) {
        body.push_str(&format!(
            "<h2>{}</h2>\n{}\n",
            escaped(&sweep.title),
            sweep.svg
        ));
    }
    for result in results {
        let text = table::render(result);
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
        "Nearfield beside other maps",
        &(head + &body),
    )
}

/// A page with a body.
pub(crate) fn frame(title: &str, heading: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <h1>{heading}</h1>\n{body}</html>\n"
    )
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;\
                     padding:0 1rem}pre{font:13px/1.35 monospace;overflow-x:auto}h2{font-size:1rem}\
                     h3{font:inherit}\
                     svg{max-width:100%;height:auto}";

/// Text as it stands in a page.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::result;
    use super::*;
    use crate::bench::Machine;
    use crate::workload::Mix;

    #[test]
    fn a_page_holds_everything_itself() {
        let mut report = Report::new("a<b".to_owned(), Machine::here());
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
