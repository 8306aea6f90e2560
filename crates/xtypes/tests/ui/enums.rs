use peregrine_xtypes::DdsType;

#[derive(Clone, DdsType)]
enum TwoDefaults {
    #[dds(default_literal)]
    A,
    #[dds(default_literal)]
    B,
}

#[derive(Clone, DdsType)]
#[dds(bit_bound = 33)]
enum TooWide {
    A,
}

#[derive(Clone, DdsType)]
enum Empty {}

#[derive(Clone, DdsType)]
enum NoLabel {
    A(u8),
}

#[derive(Clone, DdsType)]
enum SameLabel {
    #[dds(case = 1)]
    A(u8),
    #[dds(case = 2, 1)]
    B(u8),
}

#[derive(Clone, DdsType)]
enum TwoValues {
    #[dds(case = 1)]
    A(u8, u8),
}

#[derive(Clone, DdsType)]
#[dds(discriminator = "bool")]
enum DefaultWithoutLabel {
    #[dds(case = true)]
    A(u8),
    #[dds(default)]
    B(u8),
}

#[derive(Clone, DdsType)]
#[dds(bitmask, bit_bound = 9)]
struct NarrowMask(u8);

fn main() {}
