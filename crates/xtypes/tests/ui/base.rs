use peregrine_xtypes::DdsType;

#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
struct Base {
    a: u8,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "mutable")]
struct OtherExtensibility {
    #[dds(base)]
    base: Base,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
struct SameIdAsInBase {
    #[dds(base)]
    base: Base,
    #[dds(id = 0)]
    b: u8,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
struct BaseIsNotFirst {
    b: u8,
    #[dds(base)]
    base: Base,
}

fn main() {}
