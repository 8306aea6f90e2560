//! Values of the parameters of DDS Security in discovery data.

use peregrine_rtps::wire::{Endianness, ValueWriter};

use crate::cdr::Reader;
use crate::documents::SecurityMasks;
use crate::limits::{DATA_TAG_BYTES, DATA_TAGS};

/// The bit of a mask that states that the other bits count.
const VALID: u32 = 1 << 31;
/// A tag has two strings, each with its length.
const TAG_BYTES_MIN: usize = 8;

/// The value of PID_PARTICIPANT_SECURITY_INFO or PID_ENDPOINT_SECURITY_INFO (DDS Security 1.2 §7.3.22, §7.3.23): two
/// words, in the byte order of the list. Later versions append fields, which have no effect here. `None` if the value
/// ends within a word.
#[must_use]
pub fn parse_masks(value: &[u8], endianness: Endianness) -> Option<SecurityMasks> {
    let mut reader = Reader::new(value, endianness);
    let mut word = || reader.u32().ok();
    Some(SecurityMasks { standard: word()?, plugin: word()? })
}

/// Writes the value that [`parse_masks`] reads.
pub fn write_masks(masks: SecurityMasks, value: &mut ValueWriter<'_>) {
    value.u32(masks.standard);
    value.u32(masks.plugin);
}

/// Whether two participants or endpoints announce different protection. A mask that is not valid, or that is absent,
/// contradicts nothing (DDS Security 1.2 §7.3.22).
#[must_use]
pub fn conflict(one: SecurityMasks, other: Option<SecurityMasks>) -> bool {
    let Some(other) = other else { return false };
    let differ = |one: u32, other: u32| one & other & VALID != 0 && one != other;
    differ(one.standard, other.standard) || differ(one.plugin, other.plugin)
}

/// The value of PID_DATA_TAGS (DDS Security 1.2 §7.5.1.2): names and values. `None` if the value is malformed, or
/// exceeds [`DATA_TAGS`] or [`DATA_TAG_BYTES`].
#[must_use]
pub fn parse_tags(value: &[u8], endianness: Endianness) -> Option<Vec<(String, String)>> {
    let mut reader = Reader::new(value, endianness);
    let count = reader.count(DATA_TAGS, TAG_BYTES_MIN).ok()?;
    let mut text = || reader.string(DATA_TAG_BYTES).ok().map(str::to_owned);
    (0..count).map(|_| Some((text()?, text()?))).collect()
}

/// Writes the value that [`parse_tags`] reads.
pub fn write_tags(tags: &[(String, String)], value: &mut ValueWriter<'_>) {
    value.count(tags.len());
    for (name, text) in tags {
        value.string(name);
        value.string(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::hex;

    const RTPS_SIGNED: SecurityMasks = SecurityMasks { standard: 0x8000_0001, plugin: 0x8000_0000 };

    #[test]
    fn masks_equal_literal_bytes_in_both_byte_orders() {
        let masks = SecurityMasks { standard: 0x8000_0007, plugin: 0x8000_003f };
        for (endianness, digits) in [(Endianness::Big, "800000078000003f"), (Endianness::Little, "070000803f000080")] {
            let mut out = Vec::new();
            write_masks(masks, &mut ValueWriter::new(&mut out, endianness));
            assert_eq!(out, hex(digits));
            assert_eq!(parse_masks(&out, endianness), Some(masks));
            let longer = [&out[..], &[0, 1, 0, 1]].concat();
            assert_eq!(parse_masks(&longer, endianness), Some(masks), "fields of later versions");
            assert_eq!(parse_masks(&out[..7], endianness), None);
        }
    }

    #[test]
    fn valid_masks_that_differ_conflict() {
        let encrypted = SecurityMasks { plugin: 0x8000_0001, ..RTPS_SIGNED };
        let open = SecurityMasks { standard: 0x8000_0000, ..RTPS_SIGNED };
        assert!(conflict(RTPS_SIGNED, Some(encrypted)) && conflict(RTPS_SIGNED, Some(open)));
        assert!(!conflict(RTPS_SIGNED, Some(RTPS_SIGNED)));
        let not_valid = SecurityMasks { standard: 0, plugin: 1 };
        assert!(!conflict(RTPS_SIGNED, Some(not_valid)) && !conflict(RTPS_SIGNED, None));
    }

    #[test]
    fn tags_beyond_their_bounds_are_refused() {
        let written = |tags: &[(String, String)]| {
            let mut out = Vec::new();
            write_tags(tags, &mut ValueWriter::new(&mut out, Endianness::Big));
            out
        };
        let tag = |len: usize| ("n".repeat(len), "v".repeat(len));
        for (tags, accepted) in [
            (vec![tag(1); DATA_TAGS], true),
            (vec![tag(1); DATA_TAGS + 1], false),
            (vec![tag(DATA_TAG_BYTES)], true),
            (vec![tag(DATA_TAG_BYTES + 1)], false),
        ] {
            assert_eq!(parse_tags(&written(&tags), Endianness::Big), accepted.then_some(tags));
        }
    }

    proptest! {
        #[test]
        fn tags_round_trip(tags in proptest::collection::vec(("[a-z]{0,9}", "[A-Z]{0,9}"), 0..9)) {
            for endianness in [Endianness::Big, Endianness::Little] {
                let mut out = Vec::new();
                write_tags(&tags, &mut ValueWriter::new(&mut out, endianness));
                prop_assert_eq!(parse_tags(&out, endianness), Some(tags.clone()));
            }
        }

        #[test]
        fn any_bytes_are_tags_or_refused(octets: Vec<u8>) {
            if let Some(tags) = parse_tags(&octets, Endianness::Little) {
                prop_assert!(tags.len() <= DATA_TAGS);
            }
        }
    }
}
