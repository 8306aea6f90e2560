//! Changes of policies while samples pass: every policy that the standard calls changeable, by values that end no match
//! and lose no sample that a reader is entitled to.

use std::time::Duration;

use fastrand::Rng;
use peregrine::qos::{DataReaderQos, DataWriterQos, Lifespan, Property, Span};

/// Writers whose topic has a deadline offer this, or less; readers of the topic request more.
pub(super) const OFFERED_DEADLINE: Duration = Duration::from_secs(2);
/// The latency budget that readers have from their beginning. Writers offer less.
pub(super) const REQUESTED_LATENCY: Duration = Duration::from_millis(10);
/// Longer than all steps of a clock and the whole world.
const LONG: Span = Span::from_secs(100_000);

fn one_of<T: Copy>(rng: &mut Rng, values: &[T]) -> T {
    values[rng.usize(..values.len())]
}

fn properties(rng: &mut Rng) -> Vec<Property> {
    let property = |number: u8| Property {
        name: format!("name{number}"),
        value: "value".repeat(usize::from(number)),
        propagate: number.is_multiple_of(2),
    };
    (0..rng.u8(..4)).map(property).collect()
}

/// Changes some policies of a reader. `may_filter`: the reader may miss samples.
pub(super) fn change_reader(qos: &mut DataReaderQos, rng: &mut Rng, has_deadline: bool, may_filter: bool) {
    match rng.u8(..6) {
        0 => qos.user_data.0 = rng.u64(..).to_be_bytes().to_vec(),
        1 if has_deadline => {
            let longer = [Span::from_secs(4), Span::from_secs(20), Span::INFINITE];
            qos.deadline.period = one_of(rng, &longer);
        }
        2 => qos.latency_budget.duration = Span::from(REQUESTED_LATENCY) + Span::from_millis(rng.u64(..100)),
        3 if may_filter => {
            let separations = [Span::ZERO, Span::from_micros(100), Span::from_millis(3)];
            qos.time_based_filter.minimum_separation = one_of(rng, &separations);
        }
        4 => {
            let delays = [LONG, Span::INFINITE];
            qos.reader_data_lifecycle.autopurge_nowriter_samples_delay = one_of(rng, &delays);
            qos.reader_data_lifecycle.autopurge_disposed_samples_delay = one_of(rng, &delays);
        }
        _ => qos.properties.text = properties(rng),
    }
}

/// Changes some policies of a writer.
pub(super) fn change_writer(qos: &mut DataWriterQos, rng: &mut Rng, has_deadline: bool) {
    match rng.u8(..7) {
        0 => qos.user_data.0 = rng.u64(..).to_be_bytes().to_vec(),
        1 if has_deadline => {
            let shorter = [OFFERED_DEADLINE, Duration::from_millis(300), Duration::from_millis(40)];
            qos.deadline.period = one_of(rng, &shorter).into();
        }
        2 => qos.latency_budget.duration = one_of(rng, &[Span::ZERO, Span::from_millis(1), REQUESTED_LATENCY.into()]),
        3 => qos.lifespan = Lifespan { duration: one_of(rng, &[LONG, Span::INFINITE]) },
        4 => qos.ownership_strength.0 = rng.i32(..),
        5 => qos.writer_data_lifecycle.autodispose_unregistered_instances = rng.bool(),
        _ => qos.properties.text = properties(rng),
    }
}
