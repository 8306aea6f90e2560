//! What has no flat form.

use peregrine_xtypes::{DdsType, WString};

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

#[derive(Clone, DdsType)]
#[dds(extensibility = "final", flat)]
struct Text {
    text: WString,
}

fn main() {
    let mut payload = [0; 16];
    let mut text = peregrine_xtypes::flat::view_mut::<Text>(&mut payload).unwrap();
    text.text_mut().unwrap().set("new");
}
