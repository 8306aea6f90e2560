//! The attribute `key` outside `dds`.

use peregrine_xtypes::DdsType;

#[derive(Clone, DdsType)]
struct Member {
    #[key]
    id: u32,
}

#[derive(Clone, DdsType)]
#[key]
enum Union {
    #[dds(case = 1)]
    Number(u32),
}

fn main() {}
