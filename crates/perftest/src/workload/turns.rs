//! Properties of each sample of the send loop: its instance, and whether it is a ping.

use crate::plan::PublisherPlan;

/// The key of each sample in turn.
#[derive(Debug)]
pub(super) struct Keys {
    next: u32,
    instances: u32,
    fixed: bool,
}

impl Keys {
    pub(super) fn new(instances: u32, only: Option<u32>) -> Self {
        Self { next: only.unwrap_or(0), instances, fixed: only.is_some() }
    }

    #[inline]
    pub(super) fn next_key(&mut self) -> [u8; 4] {
        let key = self.next.to_le_bytes();
        if !self.fixed {
            self.next += 1;
            if self.next == self.instances {
                self.next = 0;
            }
        }
        key
    }
}

/// Which samples are pings, and which subscriber answers each.
///
/// One sample in every `latency_count` batches is a ping. Its position in the batch advances by one each time, so that
/// the time for which samples wait in a batch is measured evenly. The subscribers answer in turn.
#[derive(Debug)]
pub(super) struct PingSchedule {
    latency_count: u64,
    samples_per_batch: u64,
    subscribers: u32,
    pings: u64,
    next: Option<u64>,
}

impl PingSchedule {
    pub(super) fn new(publisher: &PublisherPlan, data_len: usize) -> Self {
        Self {
            latency_count: publisher.latency_count,
            samples_per_batch: publisher.batching.samples_for(data_len),
            subscribers: publisher.subscribers,
            pings: 0,
            next: (publisher.id == 0).then_some(0),
        }
    }

    /// The subscriber that answers sample `index`, if it is a ping. Called with each index in turn.
    #[inline]
    pub(super) fn subscriber_to_ping(&mut self, index: u64) -> Option<u32> {
        if self.next != Some(index) {
            return None;
        }
        let subscriber = (self.pings % u64::from(self.subscribers)) as u32;
        let batch = index / self.samples_per_batch;
        self.pings += 1;
        let place = self.pings % self.samples_per_batch;
        self.next = batch
            .checked_add(self.latency_count)
            .and_then(|batch| batch.checked_mul(self.samples_per_batch))
            .and_then(|start| start.checked_add(place));
        Some(subscriber)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::{Batching, Pace};

    fn publisher(latency_count: u64, batching: Batching, subscribers: u32) -> PublisherPlan {
        PublisherPlan {
            id: 0,
            subscribers,
            sizes: vec![100],
            scan: false,
            latency_test: false,
            latency_count,
            batching,
            max_samples: 100,
            execution_time: None,
            initial_burst: None,
            pace: Pace::Unlimited { sleep: Duration::ZERO, spin_count: 0 },
            write_instance: None,
            latency_file: None,
            payload_file: None,
            low_resolution_clock: false,
            serialization_rounds: 0,
        }
    }

    fn pings(publisher: &PublisherPlan, samples: u64) -> Vec<(u64, u32)> {
        let mut schedule = PingSchedule::new(publisher, 100);
        (0..samples).filter_map(|index| Some((index, schedule.subscriber_to_ping(index)?))).collect()
    }

    #[test]
    fn unbatched_every_nth_sample_is_a_ping_and_subscribers_take_turns() {
        assert_eq!(pings(&publisher(10, Batching::Off, 2), 35), [(0, 0), (10, 1), (20, 0), (30, 1)]);
        assert_eq!(pings(&publisher(1, Batching::Off, 1), 3), [(0, 0), (1, 0), (2, 0)]);
    }

    #[test]
    fn ping_position_advances_by_one_per_batch() {
        // Four samples per batch, a ping in every second batch.
        let publisher = publisher(2, Batching::Explicit(400), 1);
        let places: Vec<_> = pings(&publisher, 45).into_iter().map(|(index, _)| index).collect();
        assert_eq!(places, [0, 8 + 1, 16 + 2, 24 + 3, 32, 40 + 1]);
    }

    #[test]
    fn only_publisher_zero_pings() {
        let second = PublisherPlan { id: 1, ..publisher(1, Batching::Off, 1) };
        assert_eq!(pings(&second, 10), []);
    }

    #[test]
    fn keys_cycle_or_stay_constant() {
        let mut keys = Keys::new(3, None);
        let round: Vec<_> = (0..4).map(|_| keys.next_key()[0]).collect();
        assert_eq!(round, [0, 1, 2, 0]);
        let mut only = Keys::new(1000, Some(0x0102));
        assert_eq!([only.next_key(), only.next_key()], [[2, 1, 0, 0]; 2]);
    }
}
