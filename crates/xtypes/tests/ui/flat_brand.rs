//! The result of finishing one builder does not serve for another.

use peregrine_xtypes::DdsType;
use peregrine_xtypes::flat::{self, Flat};

#[derive(Clone, DdsType)]
#[dds(extensibility = "final", flat)]
struct Point {
    x: f32,
    y: f32,
}

fn main() {
    let mut buffer = [0; 64];
    let other = flat::builder::<Point>(&mut buffer).unwrap();
    let _ = Flat::<Vec<Point>>::build(|mut points| {
        points.push_with(|_| other.x(1.0)?.y(2.0)?.finish())?;
        points.finish()
    });
}
