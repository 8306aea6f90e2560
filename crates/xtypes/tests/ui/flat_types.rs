//! Types without a flat form.

use peregrine_xtypes::DdsType;

#[derive(Clone, DdsType)]
#[dds(extensibility = "final", flat)]
struct Base {
    x: f32,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "final", flat)]
struct Derived {
    #[dds(base)]
    base: Base,
    y: f32,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Finished {
    finish: bool,
}

#[derive(Clone, DdsType)]
#[dds(discriminator = "u8", flat)]
enum Empty {
    #[dds(case = 1)]
    One,
}

fn main() {}
