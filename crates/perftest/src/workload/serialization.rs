//! Measures the time to serialize and deserialize a sample.

use std::hint::black_box;

use super::payload::PayloadSource;
use crate::clock::MonotonicNs;
use crate::messaging::Sample;
use crate::output::SerializationTime;
use crate::plan::OVERHEAD_LEN;

/// Times `rounds` of each, by the code of the test itself; `None` without rounds.
pub(super) fn measure(source: &PayloadSource, data_len: usize, rounds: u32) -> Option<SerializationTime> {
    if rounds == 0 {
        return None;
    }
    let mut payloads = source.payloads(data_len - OVERHEAD_LEN);
    let sample = Sample::data(0, payloads.next(0));
    let mut buffer = vec![0; sample.serialized_len()];
    let serialize_ns = mean_ns(rounds, || black_box(&sample).serialize_into(black_box(&mut buffer)));
    let deserialize_ns = mean_ns(rounds, || {
        let _ = black_box(Sample::from_serialized(black_box(&buffer)));
    });
    Some(SerializationTime { serialize_ns, deserialize_ns })
}

fn mean_ns(rounds: u32, mut action: impl FnMut()) -> f64 {
    let start = MonotonicNs::now();
    for _ in 0..rounds {
        action();
    }
    MonotonicNs::now().since_ns(start) as f64 / f64::from(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_timed() {
        let source = PayloadSource::open(None, true).unwrap();
        assert_eq!(measure(&source, 100, 0), None);
        let time = measure(&source, 63_000, 1000).unwrap();
        assert!(time.serialize_ns > 0.0 && time.deserialize_ns > 0.0, "{time:?}");
    }
}
