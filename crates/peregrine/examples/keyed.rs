//! Instances with a deadline, and a writer that has to show that it is alive: who is late, and who is gone.
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
    // The writer promises a value of each motor at least every 200 ms, and a sign of life every 400 ms.
    let writer =
        topic.writer_builder().deadline(PERIOD).liveliness(LivelinessKind::ManualByTopic, 2 * PERIOD).build()?;
    // The reader asks for no more than that. A shorter deadline here would not match: see `last_non_match`.
    let reader = topic.reader_builder().reliable().keep_last(8).deadline(PERIOD).build()?;
    writer.wait_for_readers(1, PATIENCE)?;

    for id in [1, 2] {
        writer.write(&Temperature { id, celsius: 40.0 })?;
    }
    // Motor 2 is disposed: readers learn that it no longer exists. Motor 1 falls silent, and then the writer.
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
            println!("the writer shows no sign of life");
            return Ok(());
        }
    }
}
