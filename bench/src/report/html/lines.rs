//! Curves: durations of calls by percentile, and operations by second.
//!
//! The plot is a square of 1,000 by 1,000 that stretches; strokes and labels do not stretch.

use crate::report::markup::{class, escape};
use crate::report::numbers::{rate, time};
use crate::report::ranking::{Group, is_ours};
use crate::result::{CurvePoint, Row};

const SIDE: f64 = 1000.0;
/// The axis of percentiles reaches at least to the median.
const NINES_MIN: f64 = 0.302;

/// The position of a value on an axis, from 0 to 1, and its label.
type Tick = (f64, String);

/// A curve: its row, and its points, each from 0 to 1 from the lower left.
type Line<'a> = (&'a Row, Vec<(f64, f64)>);

struct Plot<'a> {
    title: &'a str,
    axis: &'a str,
    across: Vec<Tick>,
    up: Vec<Tick>,
    lines: Vec<Line<'a>>,
}

/// Latency by percentile, both on logarithmic axes; nothing if no engine has a curve.
pub fn latency(group: &Group<'_>) -> String {
    let rows: Vec<&Row> = with_figure(group, |row| row.extra.curve.len() > 1);
    let all = || rows.iter().flat_map(|row| &row.extra.curve);
    let low = all().map(|point| point.ns.max(1.0)).fold(f64::INFINITY, f64::min);
    let high = all().map(|point| point.ns.max(1.0)).fold(1.0, f64::max);
    if rows.is_empty() {
        return String::new();
    }
    let (floor, ceiling) =
        (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    // The largest call is drawn slightly to the right of the last percentile.
    let last = all().filter(|point| point.percentile < 100.0).map(nines).fold(NINES_MIN, f64::max);
    let end = last + 0.9;
    let across =
        |point: &CurvePoint| if point.percentile < 100.0 { nines(point) / end } else { 1.0 };
    let up = |ns: f64| (ns.max(1.0).log10() - floor) / (ceiling - floor);
    let lines = rows.iter().map(|row| {
        (*row, row.extra.curve.iter().map(|point| (across(point), up(point.ns))).collect())
    });
    let percentiles = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
    let marks = percentiles.iter().map(|&percentile| CurvePoint { percentile, ns: 0.0 });
    let mut ticks: Vec<Tick> = marks
        .filter(|mark| nines(mark) <= last + 1e-9)
        .map(|mark| (nines(&mark) / end, format!("{}", mark.percentile)))
        .collect();
    ticks.push((1.0, "max".to_owned()));
    let decades = (floor as i32..=ceiling as i32)
        .map(|decade| (up(10f64.powi(decade)), unit(time(10f64.powi(decade)))))
        .collect();
    draw(&Plot {
        title: "Latency of a call by percentile",
        axis: "% of calls are at most this slow",
        across: ticks,
        up: decades,
        lines: lines.collect(),
    })
}

/// Operations finished in each second; nothing if no engine ran for two.
pub fn throughput(group: &Group<'_>) -> String {
    let rows: Vec<&Row> = with_figure(group, |row| row.extra.samples.len() > 1);
    let seconds = rows.iter().map(|row| row.extra.samples.len()).max().unwrap_or(0);
    let most = rows.iter().flat_map(|row| &row.extra.samples).max().copied().unwrap_or(0);
    if rows.is_empty() || most == 0 {
        return String::new();
    }
    let step = round_step(most as f64 / 4.0);
    let top = (most as f64 / step).ceil() * step;
    let across = |second: usize| second as f64 / (seconds - 1) as f64;
    let lines = rows.iter().map(|row| {
        let points = row.extra.samples.iter().enumerate();
        (*row, points.map(|(second, &ops)| (across(second), ops as f64 / top)).collect())
    });
    let stride = round_step(seconds as f64 / 6.0).max(1.0) as usize;
    let ticks = (0..seconds).filter(|second| (second + 1).is_multiple_of(stride));
    draw(&Plot {
        title: "Operations finished in each second",
        axis: "seconds since the clock started",
        across: ticks.map(|second| (across(second), (second + 1).to_string())).collect(),
        up: (0..=(top / step).round() as u32)
            .map(|tick| (f64::from(tick) * step / top, unit(rate(f64::from(tick) * step))))
            .collect(),
        lines: lines.collect(),
    })
}

fn with_figure<'a>(group: &Group<'a>, has: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
    let rows = group.entries.iter().copied();
    let mut rows: Vec<&Row> = rows.filter(|row| row.figure().is_some() && has(row)).collect();
    // The last curve lies on top.
    rows.sort_by_key(|row| is_ours(&row.engine));
    rows
}

/// The number of nines of a percentile: 90 has one, 99 two.
fn nines(point: &CurvePoint) -> f64 {
    -(1.0 - point.percentile.clamp(0.0, 99.999_999) / 100.0).log10()
}

/// The nearest of 1, 2, 5, 10, 20, … at or above `value`.
fn round_step(value: f64) -> f64 {
    let decade = 10f64.powf(value.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= value * 0.999_999).unwrap_or(10.0 * decade)
}

/// A round number without the zeros after its point.
fn unit(text: String) -> String {
    text.replace(".00", "").replace(".0", "")
}

fn draw(plot: &Plot<'_>) -> String {
    let title = escape(plot.title);
    let mut text = format!(
        "<figure class=plot><figcaption>{title}</figcaption><div class=area><div class=up>"
    );
    for (at, label) in &plot.up {
        text += &format!("<span style=\"bottom:{:.2}%\">{label}</span>", at * 100.0);
    }
    let engines: Vec<&str> = plot.lines.iter().map(|(row, _)| &row.engine[..]).collect();
    text += &format!(
        "</div><svg viewBox=\"0 0 {SIDE} {SIDE}\" preserveAspectRatio=none role=img \
         aria-label=\"{title}, a curve each for {}\"><g class=grid>",
        escape(&engines.join(", "))
    );
    for (at, _) in &plot.up {
        text += &format!("<path d=\"M0 {0:.1}H{SIDE}\"/>", SIDE * (1.0 - at));
    }
    for (at, _) in &plot.across {
        text += &format!("<path d=\"M{:.1} 0V{SIDE}\"/>", SIDE * at);
    }
    text += "</g>";
    for (row, points) in &plot.lines {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", SIDE * x, SIDE * (1.0 - y)))
            .collect();
        let ours = if is_ours(&row.engine) { " ours" } else { "" };
        text += &format!(
            "<polyline class=\"s {}{ours}\" points=\"{}\"><title>{}</title></polyline>",
            class(&row.engine),
            points.join(" "),
            escape(&row.engine)
        );
    }
    text += "</svg><div class=across>";
    for (at, label) in &plot.across {
        text += &format!("<span style=\"left:{:.2}%\">{label}</span>", at * 100.0);
    }
    text + &format!("</div></div><p class=axis>{}</p></figure>", escape(plot.axis))
}
