//! Conversion between RTPS timestamps and the system time.

use std::time::SystemTime;

use peregrine_rtps::time::Timestamp;

/// Converts between [`Timestamp`] and [`SystemTime`].
pub trait TimestampExt: Sized {
    /// Converts a system time. Times before 1970 become 1970; times after 2106 become the latest timestamp.
    #[must_use]
    fn from_system_time(time: SystemTime) -> Self;

    /// Converts to a system time; `None` for [`Timestamp::INVALID`] and [`Timestamp::INFINITE`].
    #[must_use]
    fn to_system_time(self) -> Option<SystemTime>;
}

impl TimestampExt for Timestamp {
    fn from_system_time(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::from_unix_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    fn to_system_time(self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(self.since_unix_epoch()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn system_time_converted_to_timestamp_and_back_is_equal() {
        for nanos in [0, 1, 1_700_000_000_123_456_789] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
            assert_eq!(Timestamp::from_system_time(time).to_system_time(), Some(time));
        }
        assert_eq!(Timestamp::INVALID.to_system_time(), None);
        assert_eq!(Timestamp::INFINITE.to_system_time(), None);
        let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Timestamp::from_system_time(early).to_unix_nanos(), 0);
    }
}
