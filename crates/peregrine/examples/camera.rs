//! Images of a fixed size that are built in the memory from which they are sent, and read in place: zero copy.
//!
//! `cargo run -p peregrine --example camera`
#![forbid(unsafe_code)]

use std::time::Duration;

use peregrine::{DdsType, DomainParticipant, Error, Selector};

const PIXELS: usize = 640 * 480;

/// A final type of fixed size in C layout is plain: its memory is its encoded form.
#[derive(Clone, Copy, Debug, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Image {
    number: u32,
    pixels: [u8; PIXELS],
}

fn main() -> Result<(), Error> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Image>("images")?;
    let writer = topic.writer_builder().best_effort().keep_last(4).build()?;
    let reader = topic.reader_builder().best_effort().keep_last(4).build()?;
    writer.wait_for_readers(1, Duration::from_secs(10))?;
    reader.wait_for_writers(1, Duration::from_secs(10))?;

    for number in 0..4 {
        // Memory of the writer, which readers in other processes of this host map too. Its initial content is
        // unspecified.
        let mut image = writer.loan()?;
        image.number = number;
        image.pixels.fill(number as u8); // as a camera would
        writer.write_loan(image)?;

        reader.wait_for_data(Duration::from_secs(10))?;
        reader.take_each(&Selector::ANY, |sample| match sample.borrow() {
            Some(image) => println!("image {} begins with {}", image.number, image.pixels[0]),
            None => println!("{:?}: no image, or an image that cannot be read in place", sample.info().instance_state),
        })?;
    }
    Ok(())
}
