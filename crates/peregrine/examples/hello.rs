//! The example of the README: a writer and a reader of one process discover each other and exchange a value.
//!
//! `cargo run -p peregrine --example hello`
#![forbid(unsafe_code)]

use peregrine::{DdsType, DomainParticipant};
use std::time::Duration;

#[derive(Clone, Debug, DdsType)]
struct Greeting {
    text: String,
}

fn main() -> Result<(), peregrine::Error> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Greeting>("greetings")?;
    let writer = topic.writer()?;
    let reader = topic.reader()?;
    writer.wait_for_readers(1, Duration::from_secs(10))?;
    writer.write(&Greeting { text: "hello".into() })?;
    println!("{:?}", reader.wait_and_take(Duration::from_secs(10))?);
    Ok(())
}
