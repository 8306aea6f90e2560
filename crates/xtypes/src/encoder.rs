//! Encoding: the serialization virtual machine of XTypes 1.3 §7.4.3.

use crate::encapsulation::{Endianness, Extensibility, Representation};
use crate::error::EncodeError;
use crate::extent::padding;
use crate::parameter::{
    EM_MUST_UNDERSTAND, LONG_MUST_UNDERSTAND, MAX_SHORT_ID, MEMBER_ID_MASK, PID_EXTENDED, PID_LIST_END,
    PID_MUST_UNDERSTAND,
};
use crate::sink::Sink;

/// How deep structures and unions may nest, in a payload and in a value.
pub const MAX_DEPTH: usize = 64;

/// Which part of a value is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All members.
    Data,
    /// The KeyHolder as it is sent when an instance is disposed or unregistered: the extensibility is kept.
    Key,
    /// The KeyHolder as it is hashed: everything final, members by ascending id (XTypes 1.3 §7.6.8).
    KeyHash,
}

/// How a member's length appears in its XCDR2 header (XTypes 1.3 §7.4.3.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthCode {
    /// One byte.
    One,
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
    /// The length has a word of its own.
    Separate,
    /// The value begins with a word that is the length of the rest.
    Leading,
}

impl LengthCode {
    /// Whether the header is followed by a length word of its own.
    pub(crate) const fn is_separate(self) -> bool {
        matches!(self, Self::Separate)
    }
}

/// Writes values into a [`Sink`], aligned and in the requested byte order.
#[derive(Debug)]
pub struct Encoder<'s, S: Sink> {
    sink: &'s mut S,
    representation: Representation,
    endianness: Endianness,
    form: Form,
    origin: usize,
    depth: usize,
}

/// The place of an object's length, which is written when the object ends.
#[derive(Debug)]
#[must_use]
pub struct Length {
    /// The position of the length; `None` for an object without a length.
    pub(crate) at: Option<usize>,
}

impl Length {
    pub(crate) const NONE: Self = Self { at: None };
}

/// A member with a header of its own that is being written.
#[derive(Debug)]
#[must_use]
pub struct OpenParameter(Header);

/// The header of a member, whose length is not known yet.
#[derive(Debug)]
enum Header {
    Xcdr1 { id: u32, must_understand: bool, padded: bool, at: usize, is_long: bool, outer_origin: usize },
    Xcdr2(Length),
}

impl<'s, S: Sink> Encoder<'s, S> {
    /// Creates an encoder that aligns relative to the sink's current position.
    pub fn new(sink: &'s mut S, representation: Representation, endianness: Endianness, form: Form) -> Self {
        let origin = sink.position();
        Self { sink, representation, endianness, form, origin, depth: 0 }
    }

    /// Creates an encoder that continues the work of another: alignment starts at `origin`, and `depth` structures and
    /// unions are open.
    #[inline]
    pub(crate) fn resume(sink: &'s mut S, origin: usize, depth: usize, endianness: Endianness) -> Self {
        Self { sink, representation: Representation::Xcdr2, endianness, form: Form::Data, origin, depth }
    }

    /// The part of the value that is encoded.
    #[inline]
    pub fn form(&self) -> Form {
        self.form
    }

    /// The representation that is written.
    #[inline]
    pub fn representation(&self) -> Representation {
        self.representation
    }

    /// The byte order that is written.
    #[inline]
    pub fn endianness(&self) -> Endianness {
        self.endianness
    }

    /// The current offset from the alignment origin.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.sink.position() - self.origin
    }

    /// Writes padding up to a multiple of `alignment` (a power of two up to 8; the representation may require less).
    ///
    /// # Errors
    /// The errors of the sink.
    #[inline]
    pub fn align(&mut self, alignment: usize) -> Result<(), EncodeError> {
        const ZEROS: [u8; 8] = [0; 8];
        let count = padding(self.offset(), alignment.min(self.representation.max_alignment()));
        match ZEROS.get(..count) {
            Some(zeros) if count > 0 => self.sink.put(zeros),
            _ => Ok(()),
        }
    }

    /// Writes bytes unchanged.
    ///
    /// # Errors
    /// The errors of the sink.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.sink.put(bytes)
    }

    /// Writes an aligned number.
    ///
    /// # Errors
    /// The errors of the sink.
    #[inline]
    pub fn put_u32(&mut self, value: u32) -> Result<(), EncodeError> {
        self.align(4)?;
        self.sink.put(&self.u32_bytes(value))
    }

    #[inline]
    fn put_u16(&mut self, value: u16) -> Result<(), EncodeError> {
        self.align(2)?;
        match self.endianness {
            Endianness::Big => self.sink.put(&value.to_be_bytes()),
            Endianness::Little => self.sink.put(&value.to_le_bytes()),
        }
    }

    #[inline]
    fn u32_bytes(&self, value: u32) -> [u8; 4] {
        match self.endianness {
            Endianness::Big => value.to_be_bytes(),
            Endianness::Little => value.to_le_bytes(),
        }
    }

    /// Writes a number of elements or bytes.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] and the errors of the sink.
    #[inline]
    pub fn put_len(&mut self, len: usize) -> Result<(), EncodeError> {
        self.put_u32(u32::try_from(len).map_err(|_| EncodeError::TooLarge)?)
    }

    /// Starts an object that has a DHEADER in XCDR2 when `delimited` (XTypes 1.3 §7.4.3.4.1).
    ///
    /// # Errors
    /// The errors of the sink.
    #[inline]
    pub fn begin_delimited(&mut self, delimited: bool) -> Result<Length, EncodeError> {
        if !delimited || self.representation == Representation::Xcdr1 {
            return Ok(Length::NONE);
        }
        self.align(4)?;
        self.begin_length()
    }

    #[inline]
    fn begin_length(&mut self) -> Result<Length, EncodeError> {
        let at = self.sink.position();
        self.sink.put(&[0; 4])?;
        Ok(Length { at: Some(at) })
    }

    /// Ends an object: writes its length in front of it.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`].
    #[inline]
    pub fn end_delimited(&mut self, length: Length) -> Result<(), EncodeError> {
        let Some(at) = length.at else { return Ok(()) };
        let len = u32::try_from(self.sink.position() - at - 4).map_err(|_| EncodeError::TooLarge)?;
        self.sink.patch(at, self.u32_bytes(len));
        Ok(())
    }

    /// The extensibility with which a type is written: final in a key that is hashed.
    #[inline]
    pub fn effective(&self, extensibility: Extensibility) -> Extensibility {
        if self.form == Form::KeyHash { Extensibility::Final } else { extensibility }
    }

    /// Starts a structure or union.
    ///
    /// # Errors
    /// [`EncodeError::TooDeep`] and the errors of the sink.
    #[inline]
    pub fn begin_aggregate(&mut self, extensibility: Extensibility) -> Result<Length, EncodeError> {
        if self.depth >= MAX_DEPTH {
            return Err(EncodeError::TooDeep);
        }
        self.depth += 1;
        self.begin_delimited(!extensibility.is_final())
    }

    /// Ends a structure or union.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] and the errors of the sink.
    #[inline]
    pub fn end_aggregate(&mut self, extensibility: Extensibility, length: Length) -> Result<(), EncodeError> {
        self.depth -= 1;
        if extensibility == Extensibility::Mutable && self.representation == Representation::Xcdr1 {
            self.align(4)?;
            self.put_u16(PID_LIST_END | PID_MUST_UNDERSTAND)?;
            self.put_u16(0)?;
        }
        self.end_delimited(length)
    }

    /// Starts a member of a mutable structure or union: writes room for its header.
    ///
    /// # Errors
    /// The errors of the sink.
    #[inline]
    pub fn begin_parameter(
        &mut self,
        id: u32,
        must_understand: bool,
        length_code: LengthCode,
    ) -> Result<OpenParameter, EncodeError> {
        match self.representation {
            Representation::Xcdr1 => self.begin_parameter_xcdr1(id, must_understand, true),
            Representation::Xcdr2 => {
                let flag = if must_understand { EM_MUST_UNDERSTAND } else { 0 };
                self.put_u32(flag | (length_code as u32) << 28 | id & MEMBER_ID_MASK)?;
                let length = if length_code.is_separate() { self.begin_length()? } else { Length::NONE };
                Ok(OpenParameter(Header::Xcdr2(length)))
            }
        }
    }

    /// Starts an optional member of a final or appendable structure in XCDR1, which has a parameter header there
    /// (XTypes 1.3 §7.4.3.5.2). An absent member is an empty parameter.
    ///
    /// # Errors
    /// The errors of the sink.
    pub(crate) fn begin_optional_xcdr1(
        &mut self,
        id: u32,
        must_understand: bool,
    ) -> Result<OpenParameter, EncodeError> {
        self.begin_parameter_xcdr1(id, must_understand, false)
    }

    /// The length of a member of a mutable structure is `padded` to a multiple of four: older implementations require
    /// that, and the others accept it.
    fn begin_parameter_xcdr1(
        &mut self,
        id: u32,
        must_understand: bool,
        padded: bool,
    ) -> Result<OpenParameter, EncodeError> {
        self.align(4)?;
        let at = self.sink.position();
        let is_long = id > MAX_SHORT_ID;
        self.sink.put(if is_long { &[0; 12] } else { &[0; 4] })?;
        let outer_origin = core::mem::replace(&mut self.origin, self.sink.position());
        Ok(OpenParameter(Header::Xcdr1 { id, must_understand, padded, at, is_long, outer_origin }))
    }

    /// Ends a member that has a header: writes the header.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] and the errors of the sink.
    #[inline]
    pub fn end_parameter(&mut self, parameter: OpenParameter) -> Result<(), EncodeError> {
        let (id, must_understand, padded, at, mut is_long, outer_origin) = match parameter.0 {
            Header::Xcdr2(length) => return self.end_delimited(length),
            Header::Xcdr1 { id, must_understand, padded, at, is_long, outer_origin } => {
                (id, must_understand, padded, at, is_long, outer_origin)
            }
        };
        if padded {
            self.align(4)?;
        }
        let len = u32::try_from(self.offset()).map_err(|_| EncodeError::TooLarge)?;
        // The value does not depend on where it starts, so the rare long value is moved instead of measured beforehand.
        if !is_long && len > u32::from(u16::MAX) {
            is_long = true;
            self.sink.open_gap(at + 4, 8)?;
        }
        self.origin = outer_origin;
        self.patch_parameter_header(at, is_long, id, must_understand, len);
        Ok(())
    }

    fn patch_parameter_header(&mut self, at: usize, long: bool, id: u32, must_understand: bool, len: u32) {
        if long {
            self.patch_u16_pair(at, PID_EXTENDED | PID_MUST_UNDERSTAND, 8);
            let flag = if must_understand { LONG_MUST_UNDERSTAND } else { 0 };
            self.sink.patch(at + 4, self.u32_bytes(flag | id & MEMBER_ID_MASK));
            self.sink.patch(at + 8, self.u32_bytes(len));
        } else {
            let flag = if must_understand { PID_MUST_UNDERSTAND } else { 0 };
            self.patch_u16_pair(at, flag | id as u16, len as u16);
        }
    }

    fn patch_u16_pair(&mut self, at: usize, first: u16, second: u16) {
        let ([a, b], [c, d]) = match self.endianness {
            Endianness::Big => (first.to_be_bytes(), second.to_be_bytes()),
            Endianness::Little => (first.to_le_bytes(), second.to_le_bytes()),
        };
        self.sink.patch(at, [a, b, c, d]);
    }
}
