//! Charts as SVG, drawn by hand: axes, lines that differ in colour, pattern, mark and a name at their end, bars.

mod axis;
mod bars;
mod frame;
mod labels;
mod lines;

pub(super) use self::axis::{Axis, Scale, short};
pub(super) use self::bars::{Bars, bar_chart};
pub(super) use self::lines::{Line, Point, dash_class, line_chart, mark};
