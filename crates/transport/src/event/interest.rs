//! The descriptors that a poller of a simulated process waits for, as the machine of the process sees them.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The descriptors of one poller.
#[derive(Debug, Default)]
pub struct Interest(Mutex<BTreeMap<RawFd, Source>>);

#[derive(Clone, Copy, Debug)]
struct Source {
    token: u64,
    reports: Reports,
}

/// When a wait reports a descriptor that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reports {
    /// Each wait does.
    Always,
    /// The next wait does, and none after it.
    Once,
    /// No wait does.
    Never,
}

impl Interest {
    pub(crate) fn set(&self, descriptor: RawFd, token: u64, reports: Reports) {
        self.sources().insert(descriptor, Source { token, reports });
    }

    pub(crate) fn remove(&self, descriptor: RawFd) {
        self.sources().remove(&descriptor);
    }

    /// A wait has reported the descriptor with this token.
    pub(crate) fn note_report(&self, token: u64) {
        for source in self.sources().values_mut().filter(|source| source.token == token) {
            if source.reports == Reports::Once {
                source.reports = Reports::Never;
            }
        }
    }

    /// Whether a wait reports this descriptor when it can be read.
    #[must_use]
    pub fn reports(&self, descriptor: RawFd) -> bool {
        self.sources().get(&descriptor).is_some_and(|source| source.reports != Reports::Never)
    }

    fn sources(&self) -> MutexGuard<'_, BTreeMap<RawFd, Source>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
