use std::collections::HashMap;

use peregrine_xtypes::DdsType;

#[allow(non_camel_case_types)]
struct f128;

#[derive(Clone, DdsType)]
struct Float128 {
    a: f128,
}

#[derive(Clone, DdsType)]
struct Character {
    a: char,
}

#[derive(Clone, DdsType)]
struct Size {
    a: usize,
}

#[derive(Clone, DdsType)]
struct Hashed {
    a: HashMap<u8, u8>,
}

#[derive(Clone, DdsType)]
struct Generic<T> {
    a: T,
}

#[derive(Clone, DdsType)]
struct Unnamed(u8, u8);

#[derive(DdsType)]
union Overlay {
    a: u8,
    b: u16,
}

fn main() {}
