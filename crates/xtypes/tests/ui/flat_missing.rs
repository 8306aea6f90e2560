//! A member that has no flat form.

use peregrine_xtypes::DdsType;

#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
struct NotFlat {
    x: f32,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "final", flat)]
struct OfOneThatIsNot {
    inner: NotFlat,
}

fn main() {}
