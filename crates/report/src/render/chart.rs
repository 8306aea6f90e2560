//! Line charts as SVG: linear or logarithmic axes, one colour per series, a tooltip on every point.

use std::fmt::Write;

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;
/// Colours that the page's style sheet knows.
pub(super) const COLOURS: usize = 8;

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero.
    Linear,
    /// By decades, or by the values themselves when they are few.
    Logarithmic,
}

/// What an axis shows.
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) scale: Scale,
    /// Values that get a tick; computed when empty.
    pub(super) ticks: Vec<(f64, String)>,
}

/// One line.
pub(super) struct Line {
    pub(super) label: String,
    /// Index of the colour.
    pub(super) colour: usize,
    pub(super) dashed: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws lines over two axes. `describe` is the tooltip of a point.
pub(super) fn line_chart(
    name: &str,
    x: &Axis,
    y: &Axis,
    lines: &[Line],
    describe: &dyn Fn(&Line, (f64, f64)) -> String,
) -> String {
    let values =
        |pick: fn(&(f64, f64)) -> f64| lines.iter().flat_map(|line| &line.points).map(pick).collect::<Vec<_>>();
    let horizontal = Projection::new(x, &values(|point| point.0), LEFT, WIDTH - RIGHT);
    let vertical = Projection::new(y, &values(|point| point.1), HEIGHT - BOTTOM, TOP);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n", super::html::escape(name));
    draw_axes(&mut svg, x, y, &horizontal, &vertical);
    for line in lines {
        draw_line(&mut svg, line, &horizontal, &vertical, describe);
    }
    svg.push_str("</svg>\n");
    svg
}

/// From values to coordinates.
struct Projection {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    ticks: Vec<(f64, String)>,
}

impl Projection {
    fn new(axis: &Axis, values: &[f64], from: f64, to: f64) -> Self {
        let highest = values.iter().copied().fold(0.0_f64, f64::max);
        let lowest = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let (low, high, ticks) = match axis.scale {
            _ if highest <= 0.0 => (0.1, 1.0, Vec::new()),
            Scale::Linear => {
                let step = nice_step(highest / 6.0);
                let high = highest * 1.04;
                let count = (high / step).floor() as u32;
                (0.0, high, (0..=count).map(|tick| f64::from(tick) * step).map(labelled).collect())
            }
            Scale::Logarithmic => {
                let (low, high) =
                    if axis.ticks.is_empty() { log_bounds(lowest, highest) } else { (lowest / 1.15, highest * 1.15) };
                (low, high, log_ticks(low, high))
            }
        };
        let ticks = if axis.ticks.is_empty() { ticks } else { axis.ticks.clone() };
        Self { scale: axis.scale, low, high, from, to, ticks }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }
}

fn draw_axes(svg: &mut String, x: &Axis, y: &Axis, horizontal: &Projection, vertical: &Projection) {
    for (value, label) in &vertical.ticks {
        let at = vertical.at(*value);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
        );
    }
    let base = HEIGHT - BOTTOM;
    let mut free_from = 0.0;
    for (value, label) in &horizontal.ticks {
        let at = horizontal.at(*value);
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{base}\"/>");
        // Labels that would touch their neighbour are left out.
        let half_width = label.chars().count() as f64 * 3.6;
        if at - half_width >= free_from {
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                base + 18.0
            );
            free_from = at + half_width + 4.0;
        }
    }
    let middle = TOP + (base - TOP) / 2.0;
    let _ = writeln!(
        svg,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{base}\" y2=\"{base}\"/>\
         <text class=\"title\" x=\"{centre}\" y=\"{bottom}\" text-anchor=\"middle\">{}</text>\
         <text class=\"title\" transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        x.title,
        y.title,
        right = WIDTH - RIGHT,
        centre = LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
        bottom = HEIGHT - 6.0,
    );
}

fn draw_line(
    svg: &mut String,
    line: &Line,
    horizontal: &Projection,
    vertical: &Projection,
    describe: &dyn Fn(&Line, (f64, f64)) -> String,
) {
    let colour = line.colour % COLOURS;
    let dashed = if line.dashed { " dashed" } else { "" };
    let path: Vec<_> =
        line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", horizontal.at(*x), vertical.at(*y))).collect();
    let _ = writeln!(svg, "<polyline class=\"line c{colour}{dashed}\" points=\"{}\"/>", path.join(" "));
    if line.dashed {
        return;
    }
    for point in &line.points {
        let _ = writeln!(
            svg,
            "<circle class=\"point c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\"><title>{}</title></circle>",
            horizontal.at(point.0),
            vertical.at(point.1),
            super::html::escape(&describe(line, *point)),
        );
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step * 0.999).unwrap_or(10.0);
    factor * power
}

/// Bounds at 1, 2 or 5 times a power of ten, at least a factor of ten apart so that small differences look small.
fn log_bounds(lowest: f64, highest: f64) -> (f64, f64) {
    let floor_step = |value: f64| {
        let power = 10_f64.powf(value.log10().floor());
        let factor = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power <= value * 1.001).unwrap_or(1.0);
        factor * power
    };
    let low = floor_step(lowest);
    (low, nice_step(highest).max(low * 10.0))
}

fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let factors: &[f64] = if high / low > 2_000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
        .filter(|value| (low * 0.999..=high * 1.001).contains(value))
        .map(labelled)
        .collect()
}

fn labelled(value: f64) -> (f64, String) {
    (value, short(value))
}

/// At most four characters or so: 0.5, 20, 3k, 1.5M.
pub(super) fn short(value: f64) -> String {
    let (scaled, suffix) = match value {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.2}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(nice_step(0.9), 1.0);
        assert_eq!(nice_step(23.0), 50.0);
        assert_eq!(log_bounds(3.1, 48.0), (2.0, 50.0));
        let labels: Vec<_> = log_ticks(2.0, 50.0).into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["2", "5", "10", "20", "50"]);
        assert_eq!([short(0.5), short(1500.0), short(2e6), short(63.0)], ["0.5", "1.5k", "2M", "63"]);
    }

    #[test]
    fn values_land_inside_the_frame() {
        let axis = |scale| Axis { title: "", scale, ticks: Vec::new() };
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let projection = Projection::new(&axis(scale), &[3.0, 47.0, 1000.0], 300.0, 20.0);
            for value in [3.0, 47.0, 1000.0] {
                assert!((20.0..=300.0).contains(&projection.at(value)), "{scale:?} {value}");
            }
            assert!(projection.at(1000.0) < projection.at(3.0));
        }
    }

    #[test]
    fn nothing_to_draw_is_no_fault() {
        let axis = || Axis { title: "t", scale: Scale::Logarithmic, ticks: Vec::new() };
        let svg = line_chart("empty", &axis(), &axis(), &[], &|_, _| String::new());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
