use peregrine_xtypes::DdsType;

#[derive(Clone)]
struct NotDds;

#[derive(Clone, DdsType)]
struct Foreign {
    a: NotDds,
}

fn main() {}
