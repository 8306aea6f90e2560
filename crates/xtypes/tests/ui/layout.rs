//! Safe code cannot call a type plain that is not.
#![forbid(unsafe_code)]

use peregrine_xtypes::plain::Layout;
use peregrine_xtypes::{Extensibility, plain_layout};

struct Gap {
    octet: u8,
    long: u32,
}

enum Either {
    Octet(bool),
    Nothing,
}

union Overlap {
    long: u32,
}

const MISSING: Layout<Gap> = plain_layout!(Gap, Extensibility::Final, [long]);
const ENUM: Layout<Either> = plain_layout!(Either, Extensibility::Final, [0]);
const UNION: Layout<Overlap> = plain_layout!(Overlap, Extensibility::Final, [long]);

fn main() {
    let _ = (Gap { octet: 0, long: 0 }, Either::Octet(true), Either::Nothing, Overlap { long: 0 });
    let _ = (MISSING, ENUM, UNION);
}
