//! Tables for people: words on the left, numbers on the right.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use std::ops::RangeBounds;

/// The style of tables: a line under the header and nothing else.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// Formats a table of rows under a header, with the columns of `numbers` aligned to the right.
pub(crate) fn table<H: AsRef<str>, C: AsRef<str>>(
    header: &[H],
    numbers: impl RangeBounds<usize>,
    rows: impl IntoIterator<Item = Vec<C>>,
) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(header.iter().map(AsRef::as_ref));
    for row in rows {
        table.add_row(row.iter().map(AsRef::as_ref));
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        if numbers.contains(&number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}
