//! Groups of bars.

use std::fmt::Write;

use super::axis::{Axis, Projection, Scale};
use super::frame::{Frame, draw_base, draw_vertical_axis, open};
use crate::render::markup::escape;
use crate::view::COLOURS;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 44.0;
/// Share of a group's width that is left free.
const GAP: f64 = 0.22;

/// The bars of one colour, one for each group.
pub(in crate::render) struct Bars {
    pub(in crate::render) label: String,
    pub(in crate::render) colour: usize,
    /// Hatched, for bars that share a colour with others.
    pub(in crate::render) hollow: bool,
    /// Absent without a value.
    pub(in crate::render) values: Vec<Option<f64>>,
}

/// Draws bars over named groups, from zero.
pub(in crate::render) fn bar_chart(
    name: &str,
    groups: &[String],
    x_title: &str,
    y_title: &str,
    bars: &[Bars],
) -> String {
    let values: Vec<f64> = bars.iter().flat_map(|bars| bars.values.iter().flatten().copied()).collect();
    let axis = Axis { title: y_title.into(), scale: Scale::Linear, ticks: Vec::new() };
    let vertical = Projection::new(&axis, &values, HEIGHT - BOTTOM, TOP);
    let frame = Frame { left: LEFT, right: WIDTH - RIGHT, top: TOP, bottom: HEIGHT - BOTTOM };
    let mut svg = open(WIDTH, HEIGHT, name);
    draw_vertical_axis(&mut svg, &axis, &vertical, frame);
    let room = (frame.right - frame.left) / groups.len().max(1) as f64;
    let width = room * (1.0 - GAP) / bars.len().max(1) as f64;
    for (place, group) in groups.iter().enumerate() {
        let left = frame.left + room * place as f64;
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            left + room / 2.0,
            frame.bottom + 17.0,
            escape(group)
        );
        for (index, bars) in bars.iter().enumerate() {
            let Some(value) = bars.values.get(place).copied().flatten().filter(|value| *value > 0.0) else { continue };
            let top = vertical.at(value);
            let _ = writeln!(
                svg,
                "<rect class=\"bar c{}{}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                bars.colour % COLOURS,
                if bars.hollow { " hollow" } else { "" },
                left + room * GAP / 2.0 + width * index as f64,
                (width - 1.0).max(1.0),
                frame.bottom - top,
                escape(&format!("{}, {group}: {value:.2}", bars.label)),
            );
        }
    }
    draw_base(&mut svg, x_title, frame);
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_values_have_bars_and_missing_ones_none() {
        let bars = |colour, values| Bars { label: "a".into(), colour, hollow: false, values };
        let groups = ["32".to_owned(), "64".to_owned()];
        let svg =
            bar_chart("b", &groups, "x", "y", &[bars(0, vec![Some(1.0), None]), bars(1, vec![Some(2.0), Some(4.0)])]);
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        // The highest bar is twice as high as the one of half its value.
        let heights: Vec<f64> =
            svg.split("height=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect();
        assert!((heights[2] / heights[1] - 2.0).abs() < 0.01, "{heights:?}");
        assert!(!bar_chart("none", &[], "x", "y", &[]).contains("NaN"));
    }
}
