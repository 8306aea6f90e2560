//! Line charts.

use std::fmt::Write;

use super::axis::{Axis, Projection};
use super::frame::{CHARACTER_WIDTH, Frame, draw_base, draw_vertical_axis, open};
use super::labels::{spread, wrapped};
use crate::render::markup::escape;
use crate::view::{COLOURS, Style};

const WIDTH: f64 = 480.0;
/// Height of a chart whose names fit; other charts are higher.
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 50.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 44.0;
/// Width for the names of lines at the right.
const NAMES: f64 = 132.0;
/// Characters of a name that fit there.
const NAME_LENGTH: usize = 16;
const NAME_LINE_HEIGHT: f64 = 13.0;
/// Height by which names may exceed the frame, above and below together.
const NAMES_BEYOND: f64 = 12.0;
/// Patterns of the style sheet besides solid lines.
const PATTERNS: usize = 6;
/// Number of different marks.
const MARKS: usize = 7;

/// One line.
#[derive(Debug, Clone)]
pub(in crate::render) struct Line {
    pub(in crate::render) label: String,
    pub(in crate::render) style: Style,
    /// Whether each point has a mark.
    pub(in crate::render) marked: bool,
    pub(in crate::render) points: Vec<Point>,
}

/// One point of a line.
#[derive(Debug, Clone)]
pub(in crate::render) struct Point {
    pub(in crate::render) x: f64,
    pub(in crate::render) y: f64,
    /// Lowest and highest plausible value.
    pub(in crate::render) range: Option<(f64, f64)>,
    /// Shown under the pointer.
    pub(in crate::render) tip: String,
}

/// Draws lines over two axes; `rule` is a value of the vertical axis at which a line is drawn.
pub(in crate::render) fn line_chart(name: &str, x: &Axis, y: &Axis, lines: &[Line], rule: Option<f64>) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let heights: Vec<f64> =
        points().flat_map(|point| [Some(point.y), point.range.map(|range| range.1)]).flatten().chain(rule).collect();
    let height = HEIGHT.max(names_height(lines) - NAMES_BEYOND + TOP + BOTTOM);
    let horizontal = Projection::new(x, &points().map(|point| point.x).collect::<Vec<_>>(), LEFT, WIDTH - NAMES);
    let vertical = Projection::new(y, &heights, height - BOTTOM, TOP);
    let frame = Frame { left: LEFT, right: WIDTH - NAMES, top: TOP, bottom: height - BOTTOM };
    let mut svg = open(WIDTH, height, name);
    draw_vertical_axis(&mut svg, y, &vertical, frame);
    draw_horizontal_ticks(&mut svg, &horizontal, frame);
    draw_base(&mut svg, &x.title, frame);
    if let Some(rule) = rule.filter(|rule| vertical.holds(*rule)) {
        let at = vertical.at(rule);
        let _ =
            writeln!(svg, "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>", frame.right);
    }
    for line in lines {
        draw_line(&mut svg, line, &horizontal, &vertical);
    }
    draw_names(&mut svg, lines, &horizontal, &vertical, frame);
    svg.push_str("</svg>\n");
    svg
}

fn draw_horizontal_ticks(svg: &mut String, horizontal: &Projection, frame: Frame) {
    let mut free_from = 0.0;
    for (value, label) in horizontal.ticks.iter().filter(|(value, _)| horizontal.holds(*value)) {
        let at = horizontal.at(*value);
        let (top, base) = (frame.top, frame.bottom);
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{base}\"/>");
        // Labels that would touch their neighbour are omitted.
        let half_width = label.chars().count() as f64 * CHARACTER_WIDTH / 2.0;
        if at - half_width >= free_from {
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                base + 17.0
            );
            free_from = at + half_width + 4.0;
        }
    }
}

fn draw_line(svg: &mut String, line: &Line, horizontal: &Projection, vertical: &Projection) {
    let colour = line.style.colour % COLOURS;
    let kind = dash_class(line.style.dash);
    let place = |point: &Point| (horizontal.at(point.x), vertical.at(point.y));
    let path: Vec<_> = line.points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline class=\"line c{colour}{kind}\" points=\"{}\"/>", path.join(" "));
    if !line.marked {
        return;
    }
    for point in &line.points {
        let (x, y) = place(point);
        if let Some((low, high)) = point.range.filter(|(low, high)| vertical.at(*low) - vertical.at(*high) > 7.0) {
            let (low, high) = (vertical.at(low), vertical.at(high));
            let _ = writeln!(svg, "<path class=\"range c{colour}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
        }
        let _ = writeln!(
            svg,
            "<path class=\"point c{colour}\" transform=\"translate({x:.1} {y:.1})\" d=\"{}\"><title>{}</title></path>",
            mark(colour),
            escape(&point.tip),
        );
    }
}

/// The class of a pattern; none for solid lines.
pub(in crate::render) fn dash_class(dash: usize) -> String {
    if dash == 0 { String::new() } else { format!(" d{}", (dash - 1) % PATTERNS + 1) }
}

/// A different shape for each colour, for readers who cannot distinguish some colours.
pub(in crate::render) fn mark(colour: usize) -> &'static str {
    match colour % MARKS {
        0 => "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",
        1 => "M-3 -3h6v6h-6z",
        2 => "M0 -4.2L3.9 2.8H-3.9z",
        3 => "M0 -4.3L4.3 0L0 4.3L-4.3 0z",
        4 => "M0 4.2L3.9 -2.8H-3.9z",
        5 => "M-4 -1.4h2.6v-2.6h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6z",
        _ => "M-4.2 0L0 -2.6L4.2 0L0 2.6z",
    }
}

/// The name of a line, the end of the line, and the place of the name.
struct Name<'a> {
    line: &'a Line,
    end: &'a Point,
    text: Vec<String>,
    middle: f64,
}

/// Height of all names below each other; 0 if there is only one line, which the caption names.
fn names_height(lines: &[Line]) -> f64 {
    let named = || lines.iter().filter(|line| !line.points.is_empty());
    if named().count() < 2 { 0.0 } else { named().map(|line| name_height(&wrapped(&line.label, NAME_LENGTH))).sum() }
}

fn name_height(text: &[String]) -> f64 {
    text.len() as f64 * NAME_LINE_HEIGHT + 1.0
}

/// Draws the names at the right ends of the lines.
fn draw_names(svg: &mut String, lines: &[Line], horizontal: &Projection, vertical: &Projection, frame: Frame) {
    let Some(names) = place_names(lines, vertical, frame) else { return };
    let left = frame.right + 12.0;
    for Name { line, end, text, middle } in names {
        let colour = line.style.colour % COLOURS;
        let (x, y) = (horizontal.at(end.x), vertical.at(end.y));
        let _ = writeln!(
            svg,
            "<path class=\"leader c{colour}\" d=\"M{:.1} {y:.1}L{:.1} {middle:.1}\"/>",
            x + 4.0,
            left - 3.0
        );
        let first = middle - (text.len() as f64 - 1.0) / 2.0 * NAME_LINE_HEIGHT + 4.0;
        for (index, part) in text.iter().enumerate() {
            let _ = writeln!(
                svg,
                "<text class=\"name c{colour}\" x=\"{left:.1}\" y=\"{:.1}\">{}</text>",
                first + index as f64 * NAME_LINE_HEIGHT,
                escape(part)
            );
        }
    }
}

/// `None` if there is only one line.
fn place_names<'a>(lines: &'a [Line], vertical: &Projection, frame: Frame) -> Option<Vec<Name<'a>>> {
    let named: Vec<(&Line, &Point, Vec<String>)> =
        lines.iter().filter_map(|line| Some((line, line.points.last()?, wrapped(&line.label, NAME_LENGTH)))).collect();
    let wanted: Vec<(f64, f64)> = named.iter().map(|(_, end, text)| (vertical.at(end.y), name_height(text))).collect();
    let middles = spread(&wanted, frame.top - 8.0, frame.bottom + 4.0).filter(|_| named.len() > 1)?;
    let name = |((line, end, text), middle)| Name { line, end, text, middle };
    Some(named.into_iter().zip(middles).map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::chart::Scale;

    fn axis() -> Axis {
        Axis { title: "t".into(), scale: Scale::Logarithmic, ticks: Vec::new() }
    }

    #[test]
    fn empty_chart_is_rendered() {
        let svg = line_chart("empty", &axis(), &axis(), &[], None);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn many_long_names_are_shown_in_full_on_a_higher_chart() {
        let label = |index: usize| format!("Peregrine, shared memory, zero copy {index}");
        let line = |index: usize| Line {
            label: label(index),
            style: Style { colour: index, dash: 0 },
            marked: false,
            points: vec![Point { x: 1.0, y: 5.0, range: None, tip: String::new() }],
        };
        let lines: Vec<Line> = (0..12).map(line).collect();
        let svg = line_chart("many", &axis(), &axis(), &lines, None);
        let names: Vec<&str> =
            svg.lines().filter_map(|line| line.split_once("class=\"name ")?.1.split('>').nth(1)).collect();
        let shown: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix("</text")).collect();
        let expected: Vec<String> = (0..12).map(label).collect();
        assert_eq!(shown.join(" "), expected.join(" "));
        let height: f64 = svg.split(['"', ' ']).nth(5).unwrap().parse().unwrap();
        let lowest = svg.lines().filter(|line| line.contains("class=\"name "));
        let lowest = lowest.filter_map(|line| line.split(" y=\"").nth(1)?.split('"').next()?.parse::<f64>().ok());
        assert!(height > HEIGHT && lowest.fold(0.0, f64::max) < height, "{height}");
    }

    #[test]
    fn every_line_has_its_name_and_every_point_its_tip() {
        let line = |label: &str, colour, y| Line {
            label: label.into(),
            style: Style { colour, dash: 0 },
            marked: true,
            points: vec![Point { x: 1.0, y, range: Some((y / 2.0, y * 2.0)), tip: format!("{label} <{y}>") }],
        };
        let svg = line_chart("two", &axis(), &axis(), &[line("one & only", 0, 5.0), line("other", 1, 50.0)], Some(7.0));
        assert!(svg.contains(">one &amp; only</text>") && svg.contains(">other</text>"), "{svg}");
        assert!(svg.contains("one &amp; only &lt;5&gt;") && svg.contains("class=\"rule\""), "{svg}");
        assert_eq!(svg.matches("class=\"range").count(), 2);
    }
}
