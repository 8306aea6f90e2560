//! The result record: JSON lines, one object per line, each with a `kind`.
//!
//! The first line is a [`Header`] with the version of the schema. A reader refuses unknown versions. An end line
//! distinguishes a finished record from an interrupted one.
//!
//! Version 2 only adds to version 1: open-loop measurements, blocks of interleaved comparisons, resource use of
//! processes and sockets, checks of payloads, one-way times, searches, and more facts about the host. Version 3 adds
//! campaigns: the plan, the middleware of a series, varied settings, further publishers and subscribers, skipped
//! measurements. Version 5 adds how much of a payload was checked, and how threads wait. Version 6 adds short labels,
//! version 7 the cost of many endpoints, version 8 how samples are protected. In an older record these fields are
//! absent.

mod campaign;
mod detail;
mod document;
mod host;
mod measurement;
mod scale;
mod skipped;

pub use self::campaign::{Case, Delivery, PeerFacts, PlanFacts, Publishing, Reliability, Wait};
pub use self::detail::{
    BlockPlace, ClockOffset, Interval, OneWay, PayloadUse, ProbeOutcome, ResourceUse, Role, SearchResult, SearchStep,
    SecurityUse, WireUse,
};
pub use self::document::{
    End, Header, Line, OLDEST_SCHEMA_VERSION, ReadError, Record, SCHEMA_VERSION, Series, Warning,
};
pub use self::host::{HostFacts, Interface};
pub use self::measurement::{Measurement, SendResult, Side, SideResult, Test, ThroughputResult};
pub use self::scale::{ScaleResult, ScaleValue};
pub use self::skipped::Skipped;

#[cfg(test)]
mod tests;
