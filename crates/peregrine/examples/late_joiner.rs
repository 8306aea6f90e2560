//! A reader that starts after the writer has written gets the last state of each instance.
//!
//! `cargo run -p peregrine --example late_joiner`
#![forbid(unsafe_code)]

use std::time::Duration;

use peregrine::{DdsType, DomainParticipant, Error};

#[derive(Clone, Debug, DdsType)]
struct Setting {
    #[dds(key)]
    name: String,
    value: i32,
}

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Error> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Setting>("settings")?;
    // The writer keeps the last value of each setting for late joiners.
    let writer = topic.writer_builder().reliable().transient_local().keep_last(1).build()?;
    for (name, value) in [("speed", 3), ("gain", 7), ("speed", 5)] {
        writer.write(&Setting { name: name.to_owned(), value })?;
    }

    // This reader requests the kept values. A VOLATILE reader, the default, would get only values that are written
    // later.
    let reader = topic.reader_builder().reliable().transient_local().keep_last(1).build()?;
    reader.wait_for_historical_data(PATIENCE)?;
    for setting in reader.take()?.into_iter().filter_map(|sample| sample.into_value()) {
        println!("{} = {}", setting.name, setting.value);
    }
    Ok(())
}
