//! Builds samples of a mutable structure in place and views them: a subject of `cargo xtask bench instructions`. Its
//! parts stay functions of their own, so that a profile shows each of them.
//!
//! `flat BYTES COUNT`: COUNT samples with a payload of BYTES, which stays unfilled.

#![forbid(unsafe_code)]

use std::hint::black_box;

use peregrine_xtypes::flat::{self, FlatError};
use peregrine_xtypes::{DdsType, DecodeError};

/// Bytes of a sample without its payload.
const HEADS_LEN: usize = 128;

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Sample {
    key: [u8; 4],
    entity: i32,
    number: u32,
    seconds: i32,
    fraction: u32,
    ping: i32,
    payload: Vec<u8>,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [bytes, count] = &words[..] else { return Err("usage: flat BYTES COUNT".into()) };
    let (bytes, count) = (bytes.parse::<usize>()?, count.parse::<u32>()?);
    let mut memory = vec![0; HEADS_LEN + bytes];
    let mut sum = 0;
    for number in 0..count {
        let len = build(black_box(&mut memory), number, bytes)?;
        let sample = memory.get(..len).ok_or("a builder returns a length beyond its buffer")?;
        sum += read(black_box(sample))?;
    }
    println!("{sum}");
    Ok(())
}

#[inline(never)]
fn build(memory: &mut [u8], number: u32, bytes: usize) -> std::result::Result<usize, FlatError> {
    let done = flat::builder::<Sample>(memory)?
        .key(&[1, 2, 3, 4])?
        .entity(5)?
        .number(number)?
        .seconds(6)?
        .fraction(7)?
        .ping(-1)?
        .payload_with(|mut payload| {
            payload.fill(bytes, |_| ())?;
            payload.finish()
        })?
        .finish()?;
    Ok(done.len())
}

#[inline(never)]
fn read(sample: &[u8]) -> std::result::Result<u64, DecodeError> {
    let view = flat::view::<Sample>(sample)?;
    let key = view.key().as_slice().and_then(|key| key.first()).copied().unwrap_or(0);
    let words = [view.entity(), view.seconds(), view.ping()].map(|word| u64::from(word.cast_unsigned()));
    let sum = words.iter().sum::<u64>() + u64::from(view.number()) + u64::from(view.fraction()) + u64::from(key);
    Ok(sum + view.payload().as_slice().map_or(0, <[u8]>::len) as u64)
}
