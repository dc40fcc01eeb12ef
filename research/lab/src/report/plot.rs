//! Plots as inline SVG.

use crate::text::{grouped, rate};
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::collections::BTreeMap;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawResult = Result<(), Box<dyn std::error::Error>>;

/// The name of the machine's limit in reports.
pub(crate) const LIMIT: &str = "limit";
const WIDTH: u32 = 760;
const BAR_HEIGHT: u32 = 26;
const LABEL_WIDTH: i32 = 200;
const SWEEP_HEIGHT: u32 = 360;
const NEARFIELD_COLOR: RGBColor = RGBColor(0xd1, 0x49, 0x1b);
const PEER_COLOR: RGBColor = RGBColor(0x7a, 0x8c, 0x9e);
/// The colors of peers, which color-blind people can distinguish, too (Okabe and Ito).
const PEER_COLORS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
];
const LIMIT_COLOR: RGBColor = RGBColor(0xc9, 0xd3, 0xdc);

/// Draws a bar for each name and number.
pub(crate) fn bar_chart(bars: &[(&str, f64)]) -> String {
    svg((WIDTH, BAR_HEIGHT * bars.len() as u32 + 8), |area| {
        draw_bars(area, bars)
    })
}

fn draw_bars(area: &Area<'_>, bars: &[(&str, f64)]) -> DrawResult {
    const VALUE_WIDTH: i32 = 70;
    // At least a positive number, because bars are parts of it.
    let most = bars
        .iter()
        .map(|(_, value)| *value)
        .fold(f64::MIN_POSITIVE, f64::max);
    let room = WIDTH as i32 - LABEL_WIDTH - VALUE_WIDTH;
    let font = ("sans-serif", 14).into_font();
    for (number, &(name, value)) in bars.iter().enumerate() {
        let top = number as i32 * BAR_HEIGHT as i32 + 4;
        let right = LABEL_WIDTH + (value / most * f64::from(room)) as i32;
        let color = match name {
            "nearfield" => NEARFIELD_COLOR,
            LIMIT => LIMIT_COLOR,
            _ => PEER_COLOR,
        };
        let corners = [(LABEL_WIDTH, top), (right, top + BAR_HEIGHT as i32 - 6)];
        area.draw(&Rectangle::new(corners, color.filled()))?;
        area.draw(&Text::new(name, (0, top + 3), font.clone()))?;
        area.draw(&Text::new(rate(value), (right + 6, top + 3), font.clone()))?;
    }
    Ok(())
}

/// Draws a lane for each name, with bars from one number to another.
pub(crate) fn span_chart(spans: &[(&str, (f64, f64))]) -> String {
    let mut lanes: Vec<&str> = Vec::new();
    for (name, _) in spans {
        if !lanes.contains(name) {
            lanes.push(name);
        }
    }
    svg((WIDTH, BAR_HEIGHT * lanes.len() as u32 + 8), |area| {
        draw_spans(area, &lanes, spans)
    })
}

fn draw_spans(area: &Area<'_>, lanes: &[&str], spans: &[(&str, (f64, f64))]) -> DrawResult {
    let last = spans
        .iter()
        .map(|(_, (_, to))| *to)
        .fold(f64::MIN_POSITIVE, f64::max);
    let room = f64::from(WIDTH as i32 - LABEL_WIDTH - 8);
    let place = |at: f64| LABEL_WIDTH + (at / last * room) as i32;
    let font = ("sans-serif", 14).into_font();
    for (number, &lane) in lanes.iter().enumerate() {
        let top = number as i32 * BAR_HEIGHT as i32 + 4;
        area.draw(&Text::new(lane, (0, top + 3), font.clone()))?;
        let color = PEER_COLORS[number % PEER_COLORS.len()];
        for (_, (from, to)) in spans.iter().filter(|(name, _)| *name == lane) {
            // A span that is too short to be visible becomes a line.
            let right = place(*to).max(place(*from) + 1);
            let corners = [(place(*from), top), (right, top + BAR_HEIGHT as i32 - 6)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
        }
    }
    Ok(())
}

/// The points of each peer.
pub(crate) type Lines<'n> = BTreeMap<&'n str, Vec<(f64, f64)>>;

/// Draws a line for each peer. An axis is logarithmic if its numbers differ by a large factor.
pub(crate) fn line_chart(x_axis: &str, y_axis: &str, lines: &Lines<'_>) -> String {
    svg((WIDTH, SWEEP_HEIGHT), |area| {
        draw_lines(area, x_axis, y_axis, lines)
    })
}

/// The factor between numbers from which on their axis is logarithmic.
const FAR_APART: f64 = 8.0;

fn draw_lines(area: &Area<'_>, x_axis: &str, y_axis: &str, lines: &Lines<'_>) -> DrawResult {
    let points = || lines.values().flatten();
    let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let greatest = points()
        .map(|point| point.0)
        .fold(f64::NEG_INFINITY, f64::max);
    let highest = points()
        .map(|point| point.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area);
    let chart = chart.margin(10).x_label_area_size(40).y_label_area_size(50);
    // The range of a single point would be empty.
    let range = least..greatest.max(least + f64::EPSILON);
    let height = 0.0..highest * 1.1;
    let axes = [x_axis, y_axis];
    if least > 0.0 && greatest / least >= FAR_APART {
        let chart = chart.build_cartesian_2d(range.log_scale(), height)?;
        draw_series(chart, axes, lines)
    } else {
        draw_series(chart.build_cartesian_2d(range, height)?, axes, lines)
    }
}

fn draw_series<'a, 'b: 'a, X: Ranged<ValueType = f64> + ValueFormatter<f64>>(
    mut chart: ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, RangedCoordf64>>,
    axes: [&str; 2],
    lines: &Lines<'_>,
) -> DrawResult {
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(axes[0])
        .y_desc(axes[1])
        // Large numbers are counts.
        .x_label_formatter(&|x| match *x {
            10.0.. => grouped(*x as usize),
            _ => rate(*x),
        })
        .draw()?;
    for (number, (&peer, line)) in lines.iter().enumerate() {
        let color = match peer {
            "nearfield" => NEARFIELD_COLOR,
            _ => PEER_COLORS[number % PEER_COLORS.len()],
        };
        let points = line.iter().copied();
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))?
            .label(peer)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(PEER_COLOR)
        .draw()?;
    Ok(())
}

fn svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> DrawResult) -> String {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = draw(&area).and_then(|()| Ok(area.present()?));
    drop(area);
    match drawn {
        Ok(()) => text,
        Err(error) => format!("<p>The plot could not be drawn: {error}</p>"),
    }
}
