//! Bordered tables of text.

/// Columns of a number.
const NUMBER_WIDTH: usize = 10;

/// A table with a border, a title and a line of column names.
#[derive(Debug)]
pub struct TextPanel {
    title: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl TextPanel {
    /// Lines of a panel without rows: the border and the column names.
    pub const FRAME_LINES: usize = 3;

    /// Creates a panel. All columns but the first hold numbers. The first takes the rest of the
    /// width.
    pub fn new(
        title: &'static str,
        columns: &'static [&'static str],
        rows: impl Iterator<Item = Vec<String>>,
    ) -> TextPanel {
        TextPanel {
            title,
            columns,
            rows: rows.collect(),
        }
    }

    /// Returns the panel as at most `height` lines of `width` characters. It leaves out rows that
    /// do not fit.
    pub fn lines(&self, width: usize, height: usize) -> Vec<String> {
        let inner = width.saturating_sub(2);
        let title: String = self.title.chars().take(inner).collect();
        let rule = "─".repeat(inner - title.chars().count());
        let mut lines = vec![format!("┌{title}{rule}┐")];
        let names: Vec<String> = self.columns.iter().map(|&name| name.to_owned()).collect();
        let places = height.saturating_sub(TextPanel::FRAME_LINES);
        let rows = self.rows.iter().take(places);
        lines.extend(
            std::iter::once(&names)
                .chain(rows)
                .map(|row| format!("│{}│", fit(&cells(row, inner), inner))),
        );
        let blank = " ".repeat(inner);
        lines.resize((places + 2).max(lines.len()), format!("│{blank}│"));
        lines.push(format!("└{}┘", "─".repeat(inner)));
        // A terminal of few lines or columns shows what fits.
        lines.truncate(height);
        lines.iter().map(|line| fit(line, width)).collect()
    }
}

/// Returns the cells of a row, numbers flush right.
fn cells(row: &[String], width: usize) -> String {
    let numbers = row.len().saturating_sub(1);
    let first = width.saturating_sub(numbers * (NUMBER_WIDTH + 1));
    let mut line = String::new();
    for (column, cell) in row.iter().enumerate() {
        match column {
            0 => line += &fit(cell, first),
            _ => line += &format!(" {cell:>NUMBER_WIDTH$}"),
        }
    }
    line
}

/// Returns two panels, each with half of the width.
pub fn side_by_side(
    left: &TextPanel,
    right: &TextPanel,
    width: usize,
    height: usize,
) -> Vec<String> {
    let half = width / 2;
    let left = left.lines(half, height);
    let right = right.lines(width - half, height);
    left.iter()
        .zip(&right)
        .map(|(left, right)| format!("{left}{right}"))
        .collect()
}

/// Returns `text` cut or filled to `width` characters.
pub fn fit(text: &str, width: usize) -> String {
    let cut: String = text.chars().take(width).collect();
    format!("{cut:<width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_fills_its_place_and_leaves_out_rows() {
        let rows = (0..9).map(|row| vec![format!("row {row}"), (row * 1000).to_string()]);
        let panel = TextPanel::new("Rows", &["name", "count"], rows);
        let lines = panel.lines(24, 6);
        assert_eq!(
            lines,
            [
                "┌Rows──────────────────┐",
                "│name             count│",
                "│row 0                0│",
                "│row 1             1000│",
                "│row 2             2000│",
                "└──────────────────────┘",
            ]
        );
        for width in 0..30 {
            for height in 0..16 {
                let lines = panel.lines(width, height);
                assert_eq!(lines.len(), height);
                assert!(lines.iter().all(|line| line.chars().count() == width));
                let pair = side_by_side(&panel, &panel, width, height);
                assert_eq!(pair.len(), height);
                assert!(pair.iter().all(|line| line.chars().count() == width));
            }
        }
    }
}
