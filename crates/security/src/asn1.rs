//! DER with access to the original bytes, over which signatures are computed.

use der::{Encode, Header, Reader, SliceReader, Tag};

/// A DER error: the bytes are not what the structure requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MalformedDer;

/// Consecutive elements.
pub(crate) struct Elements<'a>(SliceReader<'a>);

/// An element: its tag, all its bytes, and those of its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) whole: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Tags of the structures that this crate reads.
pub(crate) mod tag {
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;
    /// `[0]`, constructed.
    pub(crate) const CONTEXT_0: u8 = 0xa0;
    /// `[1]`, constructed.
    pub(crate) const CONTEXT_1: u8 = 0xa1;
}

impl<'a> Elements<'a> {
    pub(crate) fn new(octets: &'a [u8]) -> Result<Self, MalformedDer> {
        Ok(Self(SliceReader::new(octets)?))
    }

    pub(crate) fn next(&mut self) -> Result<Element<'a>, MalformedDer> {
        let header = Header::peek(&self.0)?;
        let whole = self.0.tlv_bytes()?;
        let head = usize::try_from(header.encoded_len()?).map_err(|_| MalformedDer)?;
        let value = whole.get(head..).ok_or(MalformedDer)?;
        Ok(Element { tag: *whole.first().ok_or(MalformedDer)?, whole, value })
    }

    /// The next element, which has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<Element<'a>, MalformedDer> {
        let element = self.next()?;
        if element.tag == tag { Ok(element) } else { Err(MalformedDer) }
    }

    /// The next element if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, MalformedDer> {
        if self.0.peek_byte() == Some(tag) { self.next().map(Some) } else { Ok(None) }
    }

    pub(crate) fn finish(self) -> Result<(), MalformedDer> {
        if self.0.is_finished() { Ok(()) } else { Err(MalformedDer) }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<'a> Element<'a> {
    /// The only element of these bytes.
    pub(crate) fn only(octets: &'a [u8]) -> Result<Self, MalformedDer> {
        let mut elements = Elements::new(octets)?;
        let element = elements.next()?;
        elements.finish()?;
        Ok(element)
    }

    /// The elements of a constructed value.
    pub(crate) fn elements(&self) -> Result<Elements<'a>, MalformedDer> {
        Elements::new(self.value)
    }

    /// The bytes of a BIT STRING without unused bits.
    pub(crate) fn bits(&self) -> Result<&'a [u8], MalformedDer> {
        match self.value.split_first() {
            Some((0, octets)) if self.tag == tag::BIT_STRING => Ok(octets),
            _ => Err(MalformedDer),
        }
    }

    /// The same element as a SET OF, which has another tag in the structure around it.
    pub(crate) fn as_set(&self) -> Result<Vec<u8>, MalformedDer> {
        let header = Header::new(Tag::Set, self.value.len().try_into()?);
        let mut out = header.to_der()?;
        out.extend_from_slice(self.value);
        Ok(out)
    }
}

impl From<der::Error> for MalformedDer {
    fn from(_: der::Error) -> Self {
        Self
    }
}
