//! Text is not changed in place.

use peregrine_xtypes::{DdsType, WString};

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
