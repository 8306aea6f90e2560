//! DER of the structures that this module makes.

use const_oid::ObjectIdentifier;

use crate::wall_time::{Civil, WallTime};

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const CONTEXT_0: u8 = 0xa0;
pub(super) const CONTEXT_3: u8 = 0xa3;
const BOOLEAN: u8 = 0x01;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Years from here on have four digits in certificates (RFC 5280 §4.1.2.5).
const FOUR_DIGITS_FROM: i64 = 2050;

/// An element: its tag, its length and its parts.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let mut out = vec![tag];
    match u8::try_from(value.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let len: Vec<u8> = value.len().to_be_bytes().into_iter().skip_while(|octet| *octet == 0).collect();
            out.push(0x80 | u8::try_from(len.len()).unwrap_or(0x7f));
            out.extend_from_slice(&len);
        }
    }
    out.extend_from_slice(&value);
    out
}

pub(super) fn oid(identifier: ObjectIdentifier) -> Vec<u8> {
    element(OID, &[identifier.as_bytes()])
}

/// A number that is not negative.
pub(super) fn integer(octets: &[u8]) -> Vec<u8> {
    let significant = octets.iter().position(|octet| *octet != 0).and_then(|at| octets.get(at..)).unwrap_or(&[0]);
    let sign: &[u8] = if significant.first().is_some_and(|first| *first >= 0x80) { &[0] } else { &[] };
    element(INTEGER, &[sign, significant])
}

pub(super) fn bits(octets: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], octets])
}

pub(super) fn yes() -> Vec<u8> {
    element(BOOLEAN, &[&[0xff]])
}

/// A time of a certificate. `None` for years that have no form.
pub(super) fn time(at: WallTime) -> Option<Vec<u8>> {
    let Civil { year, month, day, second } = at.to_civil();
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    match year {
        1950..FOUR_DIGITS_FROM => Some(element(UTC_TIME, &[format!("{:02}", year % 100).as_bytes(), rest.as_bytes()])),
        FOUR_DIGITS_FROM..=9999 => Some(element(GENERALIZED_TIME, &[format!("{year:04}").as_bytes(), rest.as_bytes()])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn elements_have_lengths_of_any_size() {
        assert_eq!(element(OCTET_STRING, &[&[1], &[2, 3]]), hex("0403010203"));
        for (len, head) in [(0, "0400"), (127, "047f"), (128, "048180"), (256, "04820100"), (70_000, "0483011170")] {
            let octets = element(OCTET_STRING, &[&vec![7; len]]);
            let head = hex(head);
            assert_eq!((&octets[..head.len()], octets.len()), (&head[..], head.len() + len));
        }
    }

    #[test]
    fn numbers_are_never_negative() {
        for (octets, expected) in [
            (&[][..], "020100"),
            (&[0, 0], "020100"),
            (&[0, 5], "020105"),
            (&[0x80], "02020080"),
            (&[1, 0], "02020100"),
        ] {
            assert_eq!(integer(octets), hex(expected));
        }
    }

    #[test]
    fn times_have_the_form_of_their_year() {
        assert_eq!(time(WallTime(0)), Some(element(UTC_TIME, &[b"700101000000Z"])));
        let last_short = WallTime(2_524_607_999);
        assert_eq!(time(last_short), Some(element(UTC_TIME, &[b"491231235959Z"])));
        let first_long = WallTime(last_short.0 + 1);
        assert_eq!(time(first_long), Some(element(GENERALIZED_TIME, &[b"20500101000000Z"])));
        assert_eq!(time(WallTime(-1_000_000_000_000)), None);
    }
}
