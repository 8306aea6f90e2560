//! Plain CDR of version 1, in which messages and tokens of DDS Security are encoded.

use peregrine_rtps::wire::Endianness;

/// Bytes that are not what the type requires: they end within a field, or a length or text is not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MalformedCdr;

/// Reads fields, front to back. Alignment counts from the first byte.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Bytes before the rest.
    at: usize,
    endianness: Endianness,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(octets: &'a [u8], endianness: Endianness) -> Self {
        Self { rest: octets, at: 0, endianness }
    }

    /// The unread bytes.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn slice(&mut self, len: usize) -> Result<&'a [u8], MalformedCdr> {
        let (first, rest) = self.rest.split_at_checked(len).ok_or(MalformedCdr)?;
        self.rest = rest;
        self.at = self.at.saturating_add(len);
        Ok(first)
    }

    pub(crate) fn octets<const N: usize>(&mut self) -> Result<[u8; N], MalformedCdr> {
        self.slice(N)?.try_into().map_err(|_| MalformedCdr)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MalformedCdr> {
        self.align(4)?;
        let octets = self.octets()?;
        Ok(match self.endianness {
            Endianness::Big => u32::from_be_bytes(octets),
            Endianness::Little => u32::from_le_bytes(octets),
        })
    }

    pub(crate) fn i64(&mut self) -> Result<i64, MalformedCdr> {
        self.align(8)?;
        let octets = self.octets()?;
        Ok(match self.endianness {
            Endianness::Big => i64::from_be_bytes(octets),
            Endianness::Little => i64::from_le_bytes(octets),
        })
    }

    /// The number of elements of a sequence: at most `max`, and each has at least `bytes_min` bytes of the rest.
    pub(crate) fn count(&mut self, max: usize, bytes_min: usize) -> Result<usize, MalformedCdr> {
        let count = usize::try_from(self.u32()?).map_err(|_| MalformedCdr)?;
        let fits = count.checked_mul(bytes_min).is_some_and(|bytes| bytes <= self.rest.len());
        if count <= max && fits { Ok(count) } else { Err(MalformedCdr) }
    }

    /// A sequence of bytes.
    pub(crate) fn sequence(&mut self) -> Result<&'a [u8], MalformedCdr> {
        let len = usize::try_from(self.u32()?).map_err(|_| MalformedCdr)?;
        self.slice(len)
    }

    /// A string of at most `bytes_max` bytes. Its length counts the zero at its end.
    pub(crate) fn string(&mut self, bytes_max: usize) -> Result<&'a str, MalformedCdr> {
        let octets = self.sequence()?;
        // Some senders give the empty string no zero.
        let text = if octets.is_empty() { octets } else { octets.strip_suffix(&[0]).ok_or(MalformedCdr)? };
        if text.len() > bytes_max || text.contains(&0) {
            return Err(MalformedCdr);
        }
        core::str::from_utf8(text).map_err(|_| MalformedCdr)
    }

    /// Skips padding, the content of which does not matter.
    fn align(&mut self, to: usize) -> Result<(), MalformedCdr> {
        let padding = self.at.next_multiple_of(to).saturating_sub(self.at);
        self.slice(padding).map(|_| ())
    }
}

/// Appends fields. Alignment counts from the length at the beginning.
pub(crate) struct Writer<'v> {
    out: &'v mut Vec<u8>,
    start: usize,
    endianness: Endianness,
}

impl<'v> Writer<'v> {
    pub(crate) const fn new(out: &'v mut Vec<u8>, endianness: Endianness) -> Self {
        let start = out.len();
        Self { out, start, endianness }
    }

    pub(crate) fn octets(&mut self, octets: &[u8]) -> &mut Self {
        self.out.extend_from_slice(octets);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        let octets = match self.endianness {
            Endianness::Big => value.to_be_bytes(),
            Endianness::Little => value.to_le_bytes(),
        };
        self.align(4).octets(&octets)
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        let octets = match self.endianness {
            Endianness::Big => value.to_be_bytes(),
            Endianness::Little => value.to_le_bytes(),
        };
        self.align(8).octets(&octets)
    }

    /// The number of elements, or of bytes, of a sequence.
    pub(crate) fn len(&mut self, len: usize) -> &mut Self {
        // No text or list of this crate comes near the limit of the format.
        self.u32(u32::try_from(len).unwrap_or(u32::MAX))
    }

    pub(crate) fn sequence(&mut self, octets: &[u8]) -> &mut Self {
        self.len(octets.len()).octets(octets)
    }

    pub(crate) fn string(&mut self, text: &str) -> &mut Self {
        self.len(text.len().saturating_add(1)).octets(text.as_bytes()).octets(&[0])
    }

    pub(crate) fn align(&mut self, to: usize) -> &mut Self {
        let len = self.out.len().saturating_sub(self.start);
        self.out.resize(self.start.saturating_add(len.next_multiple_of(to)), 0);
        self
    }
}
