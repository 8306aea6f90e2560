//! The bound of the messages and changes that a writer holds to be sent or handed over.
//!
//! A synchronous writer accepts no sample while its backlog has reached [`SEND_QUEUE_BYTES_MAX`] and another thread
//! sends. Readers add at most a window of samples in transit and one round of repairs, and submessages have headers.

use peregrine_rtps::limits::SEND_QUEUE_BYTES_MAX;
use peregrine_rtps::payload::Payload;

/// Bytes of the backlog for any number of threads, besides some of the longest samples: a single sample may exceed
/// every queue.
const BACKLOG_BYTES_MAX: Bound = Bound { bytes: 2 * SEND_QUEUE_BYTES_MAX, longest_samples: 2 };

/// The same of a writer with repairs, or with history for late joiners, for any number of readers: with the last sample
/// of each group of repairs.
const REPAIR_BACKLOG_BYTES_MAX: Bound = Bound { bytes: 32 * SEND_QUEUE_BYTES_MAX, longest_samples: 4 };

/// Bytes of the headers around a sample of one datagram.
const HEADERS_BYTES: usize = 512;

#[derive(Clone, Copy)]
struct Bound {
    bytes: usize,
    /// Samples besides the one that is written for each reader, if each has a filter or keys of its own.
    longest_samples: usize,
}

/// Asserts the bound in debug builds.
#[derive(Debug, Default)]
pub(super) struct BacklogCheck {
    longest_sample: usize,
    /// A value was written whose length is known only once it is encoded.
    has_unknown_len: bool,
}

impl BacklogCheck {
    /// A sample is about to be written.
    #[inline]
    pub(super) fn note_sample(&mut self, payload: &Payload) {
        if cfg!(debug_assertions) {
            let len = payload.known_len();
            self.longest_sample = self.longest_sample.max(len.unwrap_or_default());
            self.has_unknown_len |= len.is_none();
        }
    }

    /// `sends_only_at_once`: see
    /// [`Writer::sends_only_at_once`](peregrine_rtps::writer::Writer::sends_only_at_once).
    #[inline]
    pub(super) fn assert_bounded(&self, backlog_bytes: usize, readers: usize, sends_only_at_once: bool) {
        let is_tight = sends_only_at_once && !self.has_unknown_len;
        let bound = if is_tight { BACKLOG_BYTES_MAX } else { REPAIR_BACKLOG_BYTES_MAX };
        let samples = bound.longest_samples.saturating_add(readers);
        // With headers, and the frames of fragments that are protected.
        let longest = self.longest_sample.saturating_add(self.longest_sample / 4).saturating_add(HEADERS_BYTES);
        let max = bound.bytes.saturating_add(samples.saturating_mul(longest));
        debug_assert!(backlog_bytes <= max, "a writer has a backlog of {backlog_bytes} bytes, above {max}");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const LEN: usize = 1_000;

    fn is_fault(backlog_bytes: usize, sends_only_at_once: bool) -> bool {
        let assert = move || {
            let mut check = BacklogCheck::default();
            check.note_sample(&Payload::copy_of(&[0; LEN]));
            check.assert_bounded(backlog_bytes, 1, sends_only_at_once);
        };
        catch_unwind(assert).is_err()
    }

    #[test]
    fn backlog_of_writer_without_repairs_beyond_two_queues_and_a_few_samples_is_a_fault() {
        let longest = LEN + LEN / 4 + HEADERS_BYTES;
        let most = 2 * SEND_QUEUE_BYTES_MAX + 3 * longest;
        assert!(!is_fault(most, true));
        assert_eq!(is_fault(most + 1, true), cfg!(debug_assertions));
        assert!(!is_fault(most + 1, false), "repairs may be among them");
        assert_eq!(is_fault(32 * SEND_QUEUE_BYTES_MAX + 5 * longest + 1, false), cfg!(debug_assertions));
    }
}
