//! Instances with a deadline, and a writer with a liveliness lease: late instances and lost writers are reported.
//!
//! `cargo run -p peregrine --example keyed`
#![forbid(unsafe_code)]

use std::time::Duration;

use peregrine::qos::LivelinessKind;
use peregrine::{DdsType, DomainParticipant, Error, Sample, StatusMask, WaitSet};

/// The temperature of one motor: each `id` is an instance of the topic.
#[derive(Clone, Debug, DdsType)]
struct Temperature {
    #[dds(key)]
    id: u32,
    celsius: f32,
}

const PERIOD: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Error> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Temperature>("temperatures")?;
    // The writer offers a value of each motor at least every 200 ms, and asserts its liveliness at least every 400 ms.
    let writer =
        topic.writer_builder().deadline(PERIOD).liveliness(LivelinessKind::ManualByTopic, 2 * PERIOD).build()?;
    // The reader requests no more than that. A reader with a shorter deadline would not match: see `last_non_match`.
    let reader = topic.reader_builder().reliable().keep_last(8).deadline(PERIOD).build()?;
    writer.wait_for_readers(1, PATIENCE)?;

    for id in [1, 2] {
        writer.write(&Temperature { id, celsius: 40.0 })?;
    }
    // Motor 2 is disposed: readers get its new instance state. Then the writer stops writing motor 1 and asserting
    // liveliness.
    writer.dispose(&Temperature { id: 2, celsius: 0.0 })?;

    let missed = reader.status_condition();
    missed.set_enabled_statuses(StatusMask::REQUESTED_DEADLINE_MISSED | StatusMask::LIVELINESS_CHANGED);
    let waits = WaitSet::new();
    waits.attach(missed);
    loop {
        for sample in reader.take()? {
            match sample {
                Sample::Value { value, .. } => println!("motor {}: {} degrees", value.id, value.celsius),
                Sample::InstanceState { info } => {
                    println!("motor {}: {:?}", reader.get_key_value(info.instance)?.id, info.instance_state);
                }
                Sample::Undecodable { error, .. } => println!("not a temperature: {error}"),
            }
        }
        waits.wait(PATIENCE)?;
        let deadline = reader.requested_deadline_missed_status();
        if let Some(instance) = deadline.last_instance.filter(|_| deadline.total_count_change > 0) {
            println!("motor {} is late", reader.get_key_value(instance)?.id);
        }
        if reader.liveliness_changed_status().not_alive_count > 0 {
            println!("the writer has lost its liveliness");
            return Ok(());
        }
    }
}
