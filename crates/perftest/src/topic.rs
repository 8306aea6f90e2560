//! The topics of a test.

use std::fmt;

/// The three topics of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Publisher to subscriber: data, pings, INITIALIZE, FINISHED, LENGTH_CHANGED.
    Throughput,
    /// Subscriber to publisher 0: every ping, echoed whole.
    Latency,
    /// Subscriber to every publisher: readiness and end-of-test acknowledgement. Always reliable and transient local
    /// where the middleware offers that.
    Announcement,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throughput => "Throughput",
            Self::Latency => "Latency",
            Self::Announcement => "Announcement",
        })
    }
}
