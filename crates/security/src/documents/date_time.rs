//! `dateTime` of XML Schema.

use crate::wall_time::{Civil, WallTime};

/// `CCYY-MM-DDThh:mm:ss[.fraction][Z|±hh:mm]`; without a time zone, UTC. Fractions of a second are dropped.
pub(super) fn parse(text: &str) -> Option<WallTime> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.split('-');
    let [year, month, day] = [4, 2, 2].map(|digits| number(parts.next(), digits));
    let is_end = parts.next().is_none();
    let (time, zone) = split_zone(time)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.split(':');
    let [hour, minute, second] = [2, 2, 2].map(|digits| number(parts.next(), digits));
    let (hour, minute, second) = (hour?, minute?, second?);
    // Midnight may be the end of a day.
    let is_time = hour < 24 || (hour == 24 && minute == 0 && second == 0);
    let has_fraction = !fraction.is_empty() && fraction.bytes().all(|octet| octet.is_ascii_digit());
    if !is_end || parts.next().is_some() || !is_time || minute > 59 || second > 59 || !has_fraction {
        return None;
    }
    let second = hour * 3600 + minute * 60 + second;
    let local = WallTime::from_civil(Civil { year: year?, month: month?, day: day?, second })?;
    Some(WallTime(local.0 - zone))
}

/// The time, and by how many seconds its zone is before UTC.
fn split_zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(at) = time.find(['+', '-']) else { return Some((time, 0)) };
    let (time, zone) = time.split_at_checked(at)?;
    let (hour, minute) = zone.get(1..)?.split_once(':')?;
    let (hour, minute) = (number(Some(hour), 2)?, number(Some(minute), 2)?);
    if hour > 14 || minute > 59 {
        return None;
    }
    let seconds = hour * 3600 + minute * 60;
    Some((time, if zone.starts_with('-') { -seconds } else { seconds }))
}

fn number(text: Option<&str>, digits: usize) -> Option<i64> {
    let text = text?;
    (text.len() == digits && text.bytes().all(|octet| octet.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_all_zones() {
        for (text, expected) in [
            ("2013-10-26T00:00:00", 1_382_745_600),
            ("2013-10-26T00:00:00Z", 1_382_745_600),
            ("2013-10-26T00:00:00.999", 1_382_745_600),
            ("2013-10-26T02:00:00+02:00", 1_382_745_600),
            ("2013-10-25T18:30:00-05:30", 1_382_745_600),
            ("2013-10-25T24:00:00Z", 1_382_745_600),
        ] {
            assert_eq!(parse(text), Some(WallTime(expected)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "2013-10-26",
            "2013-10-26T00:00",
            "13-10-26T00:00:00",
            "2013-1-26T00:00:00",
            "2013-02-30T00:00:00",
            "2013-10-26T24:00:01",
            "2013-10-26T00:60:00",
            "2013-10-26T00:00:60",
            "2013-10-26T00:00:00.",
            "2013-10-26T00:00:00+2",
            "2013-10-26T00:00:00+15:00",
            "2013-10-26 00:00:00",
            "-013-10-26T00:00:00",
            "2013-10-26T00:00:00Zx",
            "2013-10-26T00:00:00é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
