//! Members of final and appendable structures come in order, and all of them.

use peregrine_xtypes::DdsType;
use peregrine_xtypes::flat::Flat;

#[derive(Clone, DdsType)]
#[dds(extensibility = "final", flat)]
struct Point {
    x: f32,
    y: f32,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "appendable", flat)]
struct Line {
    from: Point,
    to: Point,
    label: String,
}

fn main() {
    let _ = Flat::<Point>::build(|point| point.y(1.0)?.x(2.0)?.finish());
    let _ = Flat::<Point>::build(|point| point.x(1.0)?.finish());
    let _ = Flat::<Point>::build(|point| point.x(1.0));
    let _ = Flat::<Point>::build(|point| point.x(1.0)?.x(1.0)?.finish());
    let _ = Flat::<Line>::build(|line| line.from_with(|point| point.x(1.0)));
    let _ = Flat::<Line>::build(|line| {
        let line = line.from(&Point { x: 1.0, y: 2.0 })?;
        line.to_with(|point| point.x(1.0)?.y(2.0)?.finish())?.label(3)?.finish()
    });
}
