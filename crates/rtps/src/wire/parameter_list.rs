//! Lists of parameters: inline QoS, and the values of the built-in topics.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::Endianness;
use super::error::ParameterListError;
use super::parameter_id::ParameterId;
use super::value::ValueWriter;

/// A parameter list (RTPS 2.5 §9.4.2.11).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |         parameter id          |            length             |
/// +---------------+---------------+---------------+---------------+
/// |               value, a multiple of 4 bytes                    |
/// +---------------+---------------+---------------+---------------+
/// |                              ...                              |
/// +---------------+---------------+---------------+---------------+
/// |           SENTINEL            |            ignored            |
/// +---------------+---------------+---------------+---------------+
/// ```
///
/// Checked when parsed: iterating cannot fail. Iteration skips padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ParameterList<'a> {
    bytes: &'a [u8],
    endianness: Endianness,
}

/// The parameters of a list, in order.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    rest: &'a [u8],
    endianness: Endianness,
}

/// Appends a parameter list.
#[derive(Debug)]
pub struct ParameterListWriter<'v> {
    out: &'v mut Vec<u8>,
    endianness: Endianness,
}

impl<'a> ParameterList<'a> {
    /// Splits bytes into the list at their beginning and the remainder.
    ///
    /// # Errors
    /// The list is malformed or has no end.
    pub fn parse(octets: &'a [u8], endianness: Endianness) -> Result<(Self, &'a [u8]), ParameterListError> {
        let mut rest = octets;
        loop {
            match step(rest, endianness)? {
                Step::End(after) => return Ok((Self::up_to(octets, after, endianness), after)),
                Step::Parameter { next, .. } => rest = next,
            }
        }
    }

    /// Parses all bytes as one list without the need for a sentinel; bytes after a sentinel are not part of the list
    /// (RTPS 2.5 §9.4.2.11.1).
    ///
    /// # Errors
    /// The list is malformed.
    pub fn parse_to_end(octets: &'a [u8], endianness: Endianness) -> Result<Self, ParameterListError> {
        let mut rest = octets;
        while !rest.is_empty() {
            match step(rest, endianness)? {
                Step::End(after) => return Ok(Self::up_to(octets, after, endianness)),
                Step::Parameter { next, .. } => rest = next,
            }
        }
        Ok(Self { bytes: octets, endianness })
    }

    /// The bytes of the list, sentinel included.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The byte order of ids, lengths and values.
    #[must_use]
    pub const fn endianness(&self) -> Endianness {
        self.endianness
    }

    /// The parameters, in order.
    #[must_use]
    pub const fn iter(&self) -> Parameters<'a> {
        Parameters { rest: self.bytes, endianness: self.endianness }
    }

    /// The value of the last parameter with this id, with or without a must-understand flag.
    #[must_use]
    pub fn find(&self, id: ParameterId) -> Option<&'a [u8]> {
        let (_, value) = self.iter().filter(|(found, _)| found.without_must_understand() == id).last()?;
        Some(value)
    }

    fn up_to(octets: &'a [u8], after: &[u8], endianness: Endianness) -> Self {
        let bytes = octets.get(..octets.len().saturating_sub(after.len())).unwrap_or(octets);
        Self { bytes, endianness }
    }
}

impl<'a> IntoIterator for ParameterList<'a> {
    type Item = (ParameterId, &'a [u8]);
    type IntoIter = Parameters<'a>;
    fn into_iter(self) -> Parameters<'a> {
        self.iter()
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = (ParameterId, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while let Ok(Step::Parameter { id, value, next }) = step(self.rest, self.endianness) {
            self.rest = next;
            if !matches!(id.without_must_understand(), ParameterId::PAD | ParameterId::IGNORE) {
                return Some((id, value));
            }
        }
        self.rest = &[];
        None
    }
}

impl core::iter::FusedIterator for Parameters<'_> {}

impl<'v> ParameterListWriter<'v> {
    /// Begins a list at the end of `out`.
    #[must_use]
    pub const fn new(out: &'v mut Vec<u8>, endianness: Endianness) -> Self {
        Self { out, endianness }
    }

    /// The byte order of the list.
    #[must_use]
    pub const fn endianness(&self) -> Endianness {
        self.endianness
    }

    /// Appends a parameter. `write` writes the value. A value above 65,532 bytes has the extended form.
    pub fn parameter(&mut self, id: ParameterId, write: impl FnOnce(&mut ValueWriter<'_>)) -> &mut Self {
        let start = self.out.len();
        self.out.extend_from_slice(&self.endianness.u16_octets(id.0));
        self.out.extend_from_slice(&[0, 0]);
        let mut value = ValueWriter::new(self.out, self.endianness);
        write(&mut value);
        value.align(4);
        let len = self.out.len().saturating_sub(start.saturating_add(4));
        match u16::try_from(len) {
            Ok(len) => self.patch(start, [self.endianness.u16_octets(id.0), self.endianness.u16_octets(len)]),
            Err(_) => self.extend_head(start, id, len),
        }
        self
    }

    /// Appends the sentinel.
    pub fn finish(&mut self) {
        self.out.extend_from_slice(&self.endianness.u16_octets(ParameterId::SENTINEL.0));
        self.out.extend_from_slice(&[0, 0]);
    }

    /// The flags of the id are in the upper four bits of its long form (XTypes 1.3 §7.4.1.2.4).
    fn extend_head(&mut self, start: usize, id: ParameterId, len: usize) {
        let flags = u32::from(id.0 & ParameterId::MUST_UNDERSTAND) << 16;
        let long_id = flags | u32::from(id.0 & !ParameterId::MUST_UNDERSTAND);
        let extended = ParameterId::EXTENDED.0 | ParameterId::MUST_UNDERSTAND;
        self.patch(start, [self.endianness.u16_octets(extended), self.endianness.u16_octets(8)]);
        let at = start.saturating_add(4);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let words = [self.endianness.u32_octets(long_id), self.endianness.u32_octets(len)];
        self.out.splice(at..at, words.concat());
    }

    fn patch(&mut self, start: usize, halves: [[u8; 2]; 2]) {
        let [[a, b], [c, d]] = halves;
        if let Some(head) = self.out.get_mut(start..).and_then(|octets| octets.first_chunk_mut()) {
            *head = [a, b, c, d];
        }
    }
}

enum Step<'a> {
    End(&'a [u8]),
    Parameter { id: ParameterId, value: &'a [u8], next: &'a [u8] },
}

fn step(octets: &[u8], endianness: Endianness) -> Result<Step<'_>, ParameterListError> {
    let (&[i0, i1, l0, l1], rest) = octets.split_first_chunk().ok_or(ParameterListError::NoSentinel)?;
    let id = ParameterId(endianness.u16([i0, i1]));
    if id == ParameterId::SENTINEL || id.without_must_understand() == ParameterId::LIST_END {
        return Ok(Step::End(rest));
    }
    let len = usize::from(endianness.u16([l0, l1]));
    if !len.is_multiple_of(4) {
        return Err(ParameterListError::Misaligned(id));
    }
    let (value, next) = rest.split_at_checked(len).ok_or(ParameterListError::Truncated(id))?;
    if id.without_must_understand() == ParameterId::EXTENDED {
        return extended_step(id, value, next, endianness);
    }
    Ok(Step::Parameter { id, value, next })
}

/// A parameter with an id and a length of 32 bits. Ids that do not fit into 16 bits are unknown: they become EXTENDED,
/// with their must-understand flag.
fn extended_step<'a>(
    id: ParameterId,
    head: &'a [u8],
    rest: &'a [u8],
    endianness: Endianness,
) -> Result<Step<'a>, ParameterListError> {
    let truncated = ParameterListError::Truncated(id);
    let (&[i0, i1, i2, i3, l0, l1, l2, l3], _) = head.split_first_chunk().ok_or(truncated)?;
    let long_id = endianness.u32([i0, i1, i2, i3]);
    let len = usize::try_from(endianness.u32([l0, l1, l2, l3])).map_err(|_| truncated)?;
    let padded = len.checked_next_multiple_of(4).ok_or(truncated)?;
    let (value, next) = rest.split_at_checked(padded).ok_or(truncated)?;
    let flag = if long_id & 0x4000_0000 != 0 { ParameterId::MUST_UNDERSTAND } else { 0 };
    let short = u16::try_from(long_id & 0x0fff_ffff).unwrap_or(ParameterId::EXTENDED.0);
    Ok(Step::Parameter { id: ParameterId(short | flag), value: value.get(..len).unwrap_or(value), next })
}

impl fmt::Debug for ParameterList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Names and lengths.
impl fmt::Display for ParameterList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (id, value)) in self.iter().enumerate() {
            write!(f, "{}{id}[{}]", if i == 0 { "" } else { ", " }, value.len())?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::hex;
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    fn parse(octets: &[u8]) -> Result<(ParameterList<'_>, &[u8]), ParameterListError> {
        ParameterList::parse(octets, Endianness::Little)
    }

    #[test]
    fn literal_list() {
        let octets = hex("0f000400 bb000000 00000400 ffffffff 15000400 02050000 01000000 aabb");
        let (list, rest) = parse(&octets).unwrap();
        assert_eq!(rest, [0xaa, 0xbb]);
        assert_eq!(list.as_bytes().len(), octets.len() - 2);
        let found: Vec<_> = list.iter().collect();
        assert_eq!(
            found,
            [(ParameterId::DOMAIN_ID, &hex("bb000000")[..]), (ParameterId::PROTOCOL_VERSION, &hex("02050000")[..])]
        );
        assert_eq!(list.to_string(), "{DOMAIN_ID[4], PROTOCOL_VERSION[4]}");
        assert_eq!(list.find(ParameterId::PROTOCOL_VERSION), Some(&[2, 5, 0, 0][..]));
        assert_eq!(list.find(ParameterId::VENDORID), None);
    }

    #[test]
    fn terminator_ends_list_at_any_stated_length() {
        for end in ["01000000", "0100ffff", "023f0000", "027f0800"] {
            let octets = hex(&std::format!("0f000400 bb000000 {end} 99"));
            let (list, rest) = parse(&octets).unwrap();
            assert_eq!((list.iter().count(), rest), (1, &[0x99][..]), "{end}");
        }
    }

    #[test]
    fn malformed_lists_are_rejected() {
        let id = ParameterId::DOMAIN_ID;
        assert_eq!(parse(&[]), Err(ParameterListError::NoSentinel));
        assert_eq!(parse(&hex("0f000400 bb000000")), Err(ParameterListError::NoSentinel));
        assert_eq!(parse(&hex("0f000400 bb000000 010000")), Err(ParameterListError::NoSentinel));
        assert_eq!(parse(&hex("0f000300 bb000000 01000000")), Err(ParameterListError::Misaligned(id)));
        assert_eq!(parse(&hex("0f00fcff bb000000 01000000")), Err(ParameterListError::Truncated(id)));
        assert_eq!(
            parse(&hex("017f0800 72000000 fcffffff 01000000")),
            Err(ParameterListError::Truncated(ParameterId(0x7f01)))
        );
        assert_eq!(parse(&hex("017f0400 72000000 01000000")), Err(ParameterListError::Truncated(ParameterId(0x7f01))));
    }

    #[test]
    fn list_of_header_extension_needs_no_sentinel() {
        let octets = hex("0f000400 bb000000");
        let list = ParameterList::parse_to_end(&octets, Endianness::Little).unwrap();
        assert_eq!(list.iter().count(), 1);
        let followed = hex("0f000400 bb000000 01000000 99");
        let list = ParameterList::parse_to_end(&followed, Endianness::Little).unwrap();
        assert_eq!(list.as_bytes(), &followed[..12]);
        assert!(ParameterList::parse_to_end(&octets[..6], Endianness::Little).is_err());
    }

    #[test]
    fn extended_parameter_keeps_flag() {
        let octets = hex("017f0800 72000040 05000000 0102030405000000 013f0800 00000300 04000000 01020304 01000000");
        let (list, _) = parse(&octets).unwrap();
        let found: Vec<_> = list.iter().collect();
        assert_eq!(found, [(ParameterId(0x4072), &[1, 2, 3, 4, 5][..]), (ParameterId::EXTENDED, &[1, 2, 3, 4])]);
        assert_eq!(list.find(ParameterId::TYPE_OBJECT_V1), Some(&[1, 2, 3, 4, 5][..]));
    }

    #[test]
    fn last_parameter_of_equal_id_is_found() {
        let octets = hex("0f000400 bb000000 0f400400 cc000000 01000000");
        assert_eq!(parse(&octets).unwrap().0.find(ParameterId::DOMAIN_ID), Some(&[0xcc, 0, 0, 0][..]));
    }

    proptest! {
        #[test]
        fn written_list_is_read_back(values in proptest::collection::vec((0x0002u16..0x3f00, proptest::collection::vec(any::<[u8; 4]>(), 0..9)), 0..9), big: bool) {
            let endianness = if big { Endianness::Big } else { Endianness::Little };
            let mut out = Vec::new();
            let mut writer = ParameterListWriter::new(&mut out, endianness);
            for (id, words) in &values {
                writer.parameter(ParameterId(*id), |value| value.octets(&words.concat()));
            }
            writer.finish();
            let (list, rest) = ParameterList::parse(&out, endianness).unwrap();
            prop_assert!(rest.is_empty());
            let read: Vec<_> = list.iter().map(|(id, value)| (id.0, value.to_vec())).collect();
            let written: Vec<_> = values.iter().map(|(id, words)| (*id, words.concat())).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn long_value_has_extended_form(len in 65_530usize..65_560, big: bool) {
            let endianness = if big { Endianness::Big } else { Endianness::Little };
            let octets = std::vec![7; len];
            let mut out = Vec::new();
            let mut writer = ParameterListWriter::new(&mut out, endianness);
            writer.parameter(ParameterId(0x4072), |value| value.octets(&octets)).finish();
            let (list, _) = ParameterList::parse(&out, endianness).unwrap();
            let (id, value) = list.iter().next().unwrap();
            prop_assert_eq!(id, ParameterId(0x4072));
            prop_assert_eq!(value.len(), len.next_multiple_of(4));
            prop_assert_eq!(&value[..len], &octets);
        }
    }
}
