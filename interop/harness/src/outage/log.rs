//! The record of one run, to which both sides add.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// The time of the wall clock, in nanoseconds since 1970; all processes of a run read the same clock.
pub(super) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A sample that the writer was asked to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) seq: u32,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) is_accepted: bool,
}

/// A sample that the reader took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) seq: u32,
    pub(super) taken_ns: u64,
}

/// The statuses of an endpoint and the memory of its process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) at_ns: u64,
    pub(super) matched: u32,
    pub(super) matched_total: u32,
    pub(super) sample_lost: u32,
    pub(super) stalled: u32,
    /// Authentications of peers that Peregrine has reported.
    pub(super) authenticated: u32,
    pub(super) resident_kib: u64,
    /// Counts the processes of this side.
    pub(super) process: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) written: Vec<Written>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) writer: Vec<Report>,
    pub(super) reader: Vec<Report>,
    /// When the endpoint of a restarted process existed.
    pub(super) restarted_ns: Option<u64>,
    /// The first failure of a side.
    pub(super) failure: Option<String>,
}

/// A record that both sides and the observer share.
#[derive(Debug, Default)]
pub(super) struct Log {
    record: Mutex<Record>,
    changed: Condvar,
}

impl Log {
    pub(super) fn add(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    pub(super) fn copy(&self) -> Record {
        self.lock().clone()
    }

    /// Waits until the condition holds, and says whether it did within the limit.
    ///
    /// # Errors
    /// When a side has failed.
    pub(super) fn wait(&self, limit: Duration, mut holds: impl FnMut(&Record) -> bool) -> Result<bool> {
        let deadline = Instant::now() + limit;
        let mut record = self.lock();
        loop {
            if let Some(failure) = &record.failure {
                return Err(Error::Violated(failure.clone()));
            }
            if holds(&record) {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            record = self.changed.wait_timeout(record, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
