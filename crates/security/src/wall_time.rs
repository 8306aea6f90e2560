//! Instants of the calendar.

use core::fmt;

use peregrine_rtps::time::Timestamp;

const SECONDS_PER_DAY: i64 = 86_400;

/// Seconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WallTime(pub i64);

/// A date and a time of day.
#[derive(Clone, Copy)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    /// Seconds since midnight.
    pub(crate) second: i64,
}

impl From<Timestamp> for WallTime {
    /// The second of a time of the calendar.
    fn from(time: Timestamp) -> Self {
        Self(i64::from(time.seconds))
    }
}

impl WallTime {
    /// The instant of a date in the Gregorian calendar. `None` if there is no such date.
    pub(crate) fn from_civil(civil: Civil) -> Option<Self> {
        let Civil { year, month, day, second } = civil;
        let is_date = (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !is_date || !(0..=SECONDS_PER_DAY).contains(&second) {
            return None;
        }
        // Years that begin in March, so that the leap day is the last.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let days = days + (153 * month + 2) / 5 + day - 1 - 719_468;
        let time = Self(days * SECONDS_PER_DAY);
        let found = time.to_civil();
        (found.day == day).then_some(Self(time.0 + second))
    }

    pub(crate) const fn to_civil(self) -> Civil {
        let days = self.0.div_euclid(SECONDS_PER_DAY) + 719_468;
        let second = self.0.rem_euclid(SECONDS_PER_DAY);
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (year, month) = if month < 10 { (year_of_era, month + 3) } else { (year_of_era + 1, month - 9) };
        Civil { year: year + era * 400, month, day, second }
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, second } = self.to_civil();
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: i64, month: i64, day: i64, second: i64) -> Option<i64> {
        WallTime::from_civil(Civil { year, month, day, second }).map(|time| time.0)
    }

    #[test]
    fn known_dates_are_converted_in_both_directions() {
        for (date, seconds, text) in [
            ((1970, 1, 1, 0), 0, "1970-01-01T00:00:00Z"),
            ((1969, 12, 31, 86_399), -1, "1969-12-31T23:59:59Z"),
            ((2000, 2, 29, 3600), 951_786_000, "2000-02-29T01:00:00Z"),
            ((2013, 10, 26, 0), 1_382_745_600, "2013-10-26T00:00:00Z"),
            ((2038, 1, 19, 11_647), 2_147_483_647, "2038-01-19T03:14:07Z"),
        ] {
            let (year, month, day, second) = date;
            assert_eq!(at(year, month, day, second), Some(seconds));
            assert_eq!(WallTime(seconds).to_string(), text);
        }
    }

    #[test]
    fn every_day_of_four_centuries_is_one_day_after_the_day_before() {
        let mut expected = at(1970, 1, 1, 0).unwrap();
        for year in 1970..2370 {
            for month in 1..=12 {
                let days = (1..=31).filter_map(|day| at(year, month, day, 0));
                for seconds in days {
                    assert_eq!(seconds, expected);
                    expected += SECONDS_PER_DAY;
                }
            }
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        for (year, month, day) in
            [(2023, 2, 29), (1900, 2, 29), (2024, 4, 31), (2024, 0, 1), (2024, 13, 1), (2024, 1, 0), (0, 1, 1)]
        {
            assert_eq!(at(year, month, day, 0), None, "{year}-{month}-{day}");
        }
        assert_eq!(at(2024, 1, 1, 86_401), None);
    }
}
