//! A crate without `unsafe` and without warnings has plain types, and borrows them from received bytes.
#![forbid(unsafe_code)]
#![deny(warnings)]

use peregrine_xtypes::{DdsType, Encapsulation, Endianness, Extensibility, Representation, plain};

/// An alias.
#[derive(Clone, DdsType)]
#[repr(transparent)]
pub struct Celsius(f32);

/// A base structure.
#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
pub struct Stamp {
    ticks: u64,
}

/// A plain structure.
#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
pub struct Reading {
    #[dds(base)]
    stamp: Stamp,
    warm: Celsius,
    r#type: [u8; 4],
}

#[repr(align(8))]
struct Aligned([u8; 24]);

#[test]
fn plain_type_in_a_crate_without_unsafe_is_borrowed() {
    let mut received = Aligned([7; 24]);
    let header = Encapsulation::new(Representation::Xcdr1, Extensibility::Final, Endianness::NATIVE, 0);
    received.0[4..8].copy_from_slice(&header.to_bytes());
    let reading = plain::view::<Reading>(&received.0[4..]).expect("an aligned body");
    assert_eq!((reading.stamp.ticks, reading.r#type), (0x0707_0707_0707_0707, [7; 4]));
    assert_eq!(plain::as_bytes(&reading.warm, Representation::Xcdr2), Some(&[7; 4][..]));
}
