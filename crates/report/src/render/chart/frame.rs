//! The axes and the frame of every chart.

use std::fmt::Write;

use super::axis::{Axis, Projection};
use crate::render::markup::escape;

/// Position of a chart's frame within its picture, in the picture's units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// Largest width of a character, in the fonts and sizes of the style sheet.
pub(super) const CHARACTER_WIDTH: f64 = 7.2;

pub(super) fn open(width: f64, height: f64, name: &str) -> String {
    format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n", escape(name))
}

/// Lines and numbers of the vertical axis, and its title above it.
pub(super) fn draw_vertical_axis(svg: &mut String, axis: &Axis, projection: &Projection, frame: Frame) {
    for (value, label) in &projection.ticks {
        let at = projection.at(*value);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            frame.left,
            frame.right,
            frame.left - 7.0,
            at + 4.0,
        );
    }
    let _ = writeln!(svg, "<text class=\"title\" x=\"4\" y=\"14\">{}</text>", escape(&axis.title));
}

pub(super) fn draw_base(svg: &mut String, title: &str, frame: Frame) {
    let _ = writeln!(
        svg,
        "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{base}\" y2=\"{base}\"/>\
         <text class=\"title\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        frame.left,
        frame.right,
        (frame.left + frame.right) / 2.0,
        frame.bottom + 37.0,
        escape(title),
        base = frame.bottom,
    );
}
