//! The values of a world's topics. The payload is a function of writer and number.

use std::sync::Arc;

use peregrine::{DataWriter, DdsType};

/// A type of samples.
pub(super) trait Value: DdsType + Clone + Send + Sync + 'static {
    const HAS_INSTANCES: bool;
    fn new(key: u32, writer: u32, number: u32, len: usize) -> Self;
    fn parts(&self) -> (u32, u32, u32);
    fn is_intact(&self) -> bool;
    /// Writes the value in memory of the writer.
    fn write_in_place(writer: &DataWriter<Self>, value: Self) -> Result<(), peregrine::Error>;
}

fn byte(writer: u32, number: u32, index: usize) -> u8 {
    (writer.wrapping_mul(31) ^ number.wrapping_mul(7)).wrapping_add(index as u32) as u8
}

fn payload(writer: u32, number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|index| byte(writer, number, index)).collect()
}

#[derive(Clone, Debug, DdsType)]
pub(super) struct Stream {
    writer: u32,
    number: u32,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug, DdsType)]
pub(super) struct Keyed {
    #[dds(key)]
    key: u32,
    writer: u32,
    number: u32,
    bytes: Vec<u8>,
}

const PLAIN_BYTES: usize = 6000;

#[derive(Clone, Copy, Debug, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
pub(super) struct Plain {
    writer: u32,
    number: u32,
    bytes: [u8; PLAIN_BYTES],
}

impl Value for Stream {
    const HAS_INSTANCES: bool = false;

    fn new(_: u32, writer: u32, number: u32, len: usize) -> Self {
        Self { writer, number, bytes: payload(writer, number, len) }
    }

    fn parts(&self) -> (u32, u32, u32) {
        (0, self.writer, self.number)
    }

    fn is_intact(&self) -> bool {
        self.bytes == payload(self.writer, self.number, self.bytes.len())
    }

    fn write_in_place(writer: &DataWriter<Self>, value: Self) -> Result<(), peregrine::Error> {
        writer.write_shared(Arc::new(value)).map(drop)
    }
}

impl Value for Keyed {
    const HAS_INSTANCES: bool = true;

    fn new(key: u32, writer: u32, number: u32, len: usize) -> Self {
        Self { key, writer, number, bytes: payload(writer, number, len) }
    }

    fn parts(&self) -> (u32, u32, u32) {
        (self.key, self.writer, self.number)
    }

    fn is_intact(&self) -> bool {
        self.bytes == payload(self.writer, self.number, self.bytes.len())
    }

    fn write_in_place(writer: &DataWriter<Self>, value: Self) -> Result<(), peregrine::Error> {
        writer.write_shared(Arc::new(value)).map(drop)
    }
}

impl Value for Plain {
    const HAS_INSTANCES: bool = false;

    fn new(_: u32, writer: u32, number: u32, _: usize) -> Self {
        let mut bytes = [0; PLAIN_BYTES];
        bytes.iter_mut().enumerate().for_each(|(index, place)| *place = byte(writer, number, index));
        Self { writer, number, bytes }
    }

    fn parts(&self) -> (u32, u32, u32) {
        (0, self.writer, self.number)
    }

    fn is_intact(&self) -> bool {
        self.bytes.iter().enumerate().all(|(index, found)| *found == byte(self.writer, self.number, index))
    }

    fn write_in_place(writer: &DataWriter<Self>, value: Self) -> Result<(), peregrine::Error> {
        let mut loan = writer.loan()?;
        *loan = value;
        writer.write_loan(loan).map(drop)
    }
}
