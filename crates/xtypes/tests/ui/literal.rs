use peregrine_xtypes::DdsType;

#[derive(Clone, DdsType)]
#[dds(bit_bound = 8)]
enum TooGreat {
    A = 128,
}

fn main() {}
