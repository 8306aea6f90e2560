//! The result record: JSON lines, one object per line, each with a `kind`.
//!
//! The first line is a [`Header`], which names the version of the schema. A reader refuses a version it does not know,
//! and an end line tells a finished record from one that was cut off.
//!
//! Version 2 adds to version 1, and takes nothing away: open-loop measurements, blocks of interleaved comparisons, what
//! the process and the wire were used for, whether payloads were checked, times one way, searches, and more about the
//! host. Version 3 adds campaigns: the plan, the middleware behind a series, what each measurement varies, further
//! publishers and subscribers, measurements that could not be made. Version 5 adds how much of a payload was checked, and how
//! threads wait. Version 6 adds short labels. An older record is read as one that does not say these.

mod campaign;
mod detail;
mod document;
mod host;
mod measurement;
mod skipped;

pub use self::campaign::{Case, Delivery, PeerFacts, PlanFacts, Publishing, Reliability, Wait};
pub use self::detail::{
    BlockPlace, ClockOffset, Interval, OneWay, PayloadUse, ProbeOutcome, ResourceUse, Role, SearchResult, SearchStep,
    WireUse,
};
pub use self::document::{
    End, Header, Line, OLDEST_SCHEMA_VERSION, ReadError, Record, SCHEMA_VERSION, Series, Warning,
};
pub use self::host::{HostFacts, Interface};
pub use self::measurement::{Measurement, SendResult, Side, SideResult, Test, ThroughputResult};
pub use self::skipped::Skipped;

#[cfg(test)]
mod tests;
