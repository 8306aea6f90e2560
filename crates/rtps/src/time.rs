//! Instants and spans of the caller's monotonic clock, and the time stamps of the wire.

use core::fmt;
use core::ops::{Add, Sub};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// An instant of the caller's monotonic clock, in nanoseconds since an origin that the caller chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than every deadline.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The span since `earlier`; zero when that lies in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// Replaces `next` by an optional deadline if that is sooner.
#[inline]
pub(crate) fn sooner<T>(next: &mut Option<(Instant, T)>, at: Option<Instant>, what: T) {
    if let Some(at) = at
        && next.as_ref().is_none_or(|(sooner, _)| at < *sooner)
    {
        *next = Some((at, what));
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Instant {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// A span of time in nanoseconds, as computed with. Arithmetic saturates; the largest value means "for ever".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub u64);

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// For ever.
    pub const INFINITE: Self = Self(u64::MAX);

    /// Whole microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Whole milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Whole seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(NANOS_PER_SEC))
    }

    /// Whether this means "for ever".
    #[must_use]
    pub const fn is_infinite(self) -> bool {
        self.0 == u64::MAX
    }

    /// `n` times as long.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// So many bytes come in this time at a rate of `per_second`, to the microsecond; no more than fit into a `usize`.
    pub(crate) const fn bytes_at(self, per_second: usize) -> usize {
        let bytes = (self.0 / 1_000).saturating_mul(per_second as u64) / 1_000_000;
        if bytes > usize::MAX as u64 { usize::MAX } else { bytes as usize }
    }

    /// How long so many bytes take to come at a rate of `per_second`, rounded up to the nanosecond. No longer than a
    /// time in which [`Self::bytes_at`] counts so many.
    pub(crate) const fn of_bytes_at(bytes: usize, per_second: usize) -> Self {
        let (bytes, rate) = (bytes as u64, if per_second == 0 { 1 } else { per_second as u64 });
        let rest = (bytes % rate).saturating_mul(1_000_000_000).div_ceil(rate);
        Self((bytes / rate).saturating_mul(1_000_000_000).saturating_add(rest))
    }

    /// The `n`th part; "for ever" stays so, and a division by 0 is "for ever".
    #[must_use]
    pub const fn divided_by(self, n: u64) -> Self {
        match (self.is_infinite(), self.0.checked_div(n)) {
            (false, Some(part)) => Self(part),
            _ => Self::INFINITE,
        }
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("infinite"),
            ns if ns >= NANOS_PER_SEC => write!(f, "{}.{:09} s", ns / NANOS_PER_SEC, ns % NANOS_PER_SEC),
            ns => write!(f, "{ns} ns"),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<core::time::Duration> for Span {
    fn from(duration: core::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for core::time::Duration {
    /// "For ever" is [`Self::MAX`](core::time::Duration::MAX).
    fn from(span: Span) -> Self {
        if span.is_infinite() { Self::MAX } else { Self::from_nanos(span.0) }
    }
}

/// A time stamp of the wire: seconds since the Unix epoch and 2^-32 fractions (RTPS 2.5 §9.3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: u32,
    /// Units of 2^-32 s.
    pub fraction: u32,
}

impl Timestamp {
    /// No time stamp.
    pub const INVALID: Self = Self { seconds: 0xffff_ffff, fraction: 0xffff_ffff };
    /// Later than every other time stamp.
    pub const INFINITE: Self = Self { seconds: 0xffff_ffff, fraction: 0xffff_fffe };

    /// From nanoseconds since the Unix epoch; the largest representable time stamp past the year 2106.
    #[must_use]
    pub const fn from_unix_nanos(nanos: u64) -> Self {
        let seconds = nanos / NANOS_PER_SEC;
        if seconds > 0xffff_fffe {
            return Self { seconds: 0xffff_fffe, fraction: 0xffff_ffff };
        }
        Self { seconds: seconds as u32, fraction: fraction_of_nanos(nanos % NANOS_PER_SEC) }
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn to_unix_nanos(self) -> u64 {
        self.seconds as u64 * NANOS_PER_SEC + nanos_of_fraction(self.fraction)
    }

    /// The time that is earlier by `span`; unchanged unless this is a real instant.
    #[must_use]
    pub const fn earlier_by(self, span: Span) -> Self {
        if self.is_valid() { Self::from_unix_nanos(self.to_unix_nanos().saturating_sub(span.0)) } else { self }
    }

    /// The time since the Unix epoch; `None` unless this is a real instant.
    #[must_use]
    pub const fn since_unix_epoch(self) -> Option<core::time::Duration> {
        if self.is_valid() { Some(core::time::Duration::from_nanos(self.to_unix_nanos())) } else { None }
    }

    /// Whether this is a real instant.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.seconds != 0xffff_ffff || self.fraction < 0xffff_fffe
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_valid() {
            write!(f, "{}.{:09}", self.seconds, nanos_of_fraction(self.fraction))
        } else {
            f.write_str("invalid")
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A span on the wire: seconds and 2^-32 fractions (RTPS 2.5 §9.3.2.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    /// Whole seconds.
    pub seconds: i32,
    /// Units of 2^-32 s.
    pub fraction: u32,
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self { seconds: 0, fraction: 0 };
    /// For ever.
    pub const INFINITE: Self = Self { seconds: 0x7fff_ffff, fraction: 0xffff_ffff };

    /// Rounds a span down to the wire's resolution; spans past 68 years are "for ever".
    #[must_use]
    pub const fn from_span(span: Span) -> Self {
        let seconds = span.0 / NANOS_PER_SEC;
        if span.is_infinite() || seconds >= 0x7fff_ffff {
            return Self::INFINITE;
        }
        Self { seconds: seconds as i32, fraction: fraction_of_nanos(span.0 % NANOS_PER_SEC) }
    }

    /// As a span, to the nearest nanosecond. Negative durations are zero. The largest number of seconds is "for ever"
    /// with any fraction: some vendors write the nanoseconds of the DDS constant there.
    #[must_use]
    pub const fn to_span(self) -> Span {
        if self.seconds == 0x7fff_ffff {
            return Span::INFINITE;
        }
        if self.seconds < 0 {
            return Span::ZERO;
        }
        Span(self.seconds as u64 * NANOS_PER_SEC + nanos_of_fraction(self.fraction))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_span(), f)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Rounds up, so that nanoseconds survive the conversion to the wire and back.
const fn fraction_of_nanos(nanos: u64) -> u32 {
    ((nanos << 32).div_ceil(NANOS_PER_SEC)) as u32
}

/// Rounds to the nearest, because other vendors round down where this crate rounds up: 100 ms is equal from all
/// vendors.
const fn nanos_of_fraction(fraction: u32) -> u64 {
    let nanos = (fraction as u64 * NANOS_PER_SEC + (1 << 31)) >> 32;
    if nanos < NANOS_PER_SEC { nanos } else { NANOS_PER_SEC - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_take_no_longer_than_the_time_that_counts_them() {
        for per_second in [1, 100, 1 << 10, 64 << 10, 1_000_003] {
            for elapsed in [0, 1_000, 15_258, 999_999_999, 7_777_777_777, 1 << 50].map(Span) {
                let bytes = elapsed.bytes_at(per_second);
                let taken = Span::of_bytes_at(bytes, per_second);
                assert!(taken <= elapsed && elapsed.0 - taken.0 <= 1_001_000_000 / per_second as u64 + 1_000);
            }
        }
        assert_eq!(Span::of_bytes_at(usize::MAX, 0), Span(u64::MAX));
    }

    #[test]
    fn special_values_round_trip() {
        assert_eq!(Duration::from_span(Span::INFINITE), Duration::INFINITE);
        assert_eq!(Duration::INFINITE.to_span(), Span::INFINITE);
        assert_eq!(Duration { seconds: -1, fraction: 0 }.to_span(), Span::ZERO);
        assert!(!Timestamp::INVALID.is_valid());
        assert!(!Timestamp::INFINITE.is_valid());
        assert_eq!(Span::INFINITE.divided_by(3), Span::INFINITE);
        assert_eq!(Span(9).divided_by(0), Span::INFINITE);
    }

    #[test]
    fn spans_and_durations_are_interconvertible() {
        for span in [Span::ZERO, Span::from_millis(20), Span::INFINITE] {
            assert_eq!(Span::from(core::time::Duration::from(span)), span);
        }
        assert_eq!(core::time::Duration::from(Span::INFINITE), core::time::Duration::MAX);
    }

    #[test]
    fn hundred_milliseconds_have_usual_fraction() {
        // Cyclone DDS sends 9a999919 (little endian).
        assert_eq!(Duration::from_span(Span::from_millis(100)), Duration { seconds: 0, fraction: 0x1999_999a });
    }

    #[test]
    fn fractions_rounded_up_and_down_are_equal() {
        for fraction in [0x1999_9999, 0x1999_999a] {
            assert_eq!(Duration { seconds: 0, fraction }.to_span(), Span::from_millis(100));
        }
        assert_eq!(Duration { seconds: 1, fraction: u32::MAX }.to_span(), Span(1_999_999_999));
        assert_eq!(Duration { seconds: 0x7fff_ffff, fraction: 0x7fff_ffff }.to_span(), Span::INFINITE);
    }

    proptest! {
        #[test]
        fn nanoseconds_round_trip(ns in 0u64..(u64::from(u32::MAX) - 1) * NANOS_PER_SEC) {
            prop_assert_eq!(Timestamp::from_unix_nanos(ns).to_unix_nanos(), ns);
        }

        #[test]
        fn spans_round_trip(ns in 0u64..0x7fff_fffe * NANOS_PER_SEC) {
            prop_assert_eq!(Duration::from_span(Span(ns)).to_span(), Span(ns));
        }
    }
}
