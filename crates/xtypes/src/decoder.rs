//! Decoding. Every length is checked before it is used.

use crate::encapsulation::{Encapsulation, Endianness, Extensibility, Representation};
use crate::encoder::{Form, MAX_DEPTH};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::extent::padding;
use crate::parameter::{
    EM_MUST_UNDERSTAND, LONG_MUST_UNDERSTAND, MEMBER_ID_MASK, PID_EXTENDED, PID_IGNORE, PID_LIST_END, PID_MASK,
    PID_MUST_UNDERSTAND,
};

/// Reads values from a payload, within the window that the enclosing objects leave.
///
/// A clone remembers a position: it reads the same bytes again.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    position: usize,
    end: usize,
    origin: usize,
    depth: usize,
    representation: Representation,
    endianness: Endianness,
    form: Form,
}

/// A position in an XCDR2 payload, without the payload: the state of a [`Decoder`].
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// From the start of the payload, in bytes.
    pub(crate) position: usize,
    /// The end of the window, in the same way.
    pub(crate) end: usize,
    pub(crate) depth: usize,
    pub(crate) endianness: Endianness,
}

/// A structure or union being read.
#[derive(Debug)]
#[must_use]
pub struct Aggregate {
    outer_end: usize,
    delimited: bool,
}

/// A member of a mutable structure or union being read: the decoder's window is its value.
#[derive(Debug)]
#[must_use]
pub struct Parameter {
    /// The member id.
    pub id: u32,
    /// Whether a reader that does not know the member must refuse the sample.
    pub must_understand: bool,
    /// Whether the first word of the value also is its length, whatever the value is.
    pub(crate) shares_length: bool,
    outer_end: usize,
    outer_origin: usize,
}

impl<'a> Decoder<'a> {
    /// Creates a decoder of the body of `payload`, which starts with an encapsulation header.
    ///
    /// # Errors
    /// The errors of [`Encapsulation::parse`], and [`DecodeErrorKind::ExtensibilityMismatch`] when the header is not
    /// that of a type with this `extensibility`.
    pub fn new(payload: &'a [u8], extensibility: Extensibility, form: Form) -> Result<Self, DecodeError> {
        let header = Encapsulation::parse(payload)?;
        let expected = Encapsulation::new(header.representation, extensibility, header.endianness, 0);
        if header.extensibility != expected.extensibility {
            return Err(DecodeError::new(DecodeErrorKind::ExtensibilityMismatch, 0));
        }
        let body = payload.len() - Encapsulation::LEN;
        Ok(Self {
            bytes: payload,
            position: Encapsulation::LEN,
            end: payload.len() - header.padding().min(body),
            origin: Encapsulation::LEN,
            depth: 0,
            representation: header.representation,
            endianness: header.endianness,
            form,
        })
    }

    /// Creates a decoder of the body of `payload` if its header is the one that this crate writes for XCDR2.
    #[inline]
    pub(crate) fn native(payload: &'a [u8], extensibility: Extensibility) -> Option<Self> {
        let header = Encapsulation::new(Representation::Xcdr2, extensibility, Endianness::NATIVE, 0);
        let ([first, second, _, options], body) = payload.split_first_chunk()?;
        let [native_first, native_second, _, _] = header.to_bytes();
        if [*first, *second] != [native_first, native_second] {
            return None;
        }
        let padding = usize::from(options & Encapsulation::PADDING_MASK as u8);
        let end = payload.len() - padding.min(body.len());
        let place = Place { position: Encapsulation::LEN, end, depth: 0, endianness: Endianness::NATIVE };
        Some(Self::resume(payload, place))
    }

    /// Creates a decoder of the XCDR2 sample in `bytes` that continues at `place`.
    #[inline]
    pub(crate) fn resume(bytes: &'a [u8], place: Place) -> Self {
        Self {
            bytes,
            position: place.position,
            end: place.end.min(bytes.len()),
            origin: Encapsulation::LEN,
            depth: place.depth,
            representation: Representation::Xcdr2,
            endianness: place.endianness,
            form: Form::Data,
        }
    }

    /// The position and state of this decoder.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place { position: self.position, end: self.end, depth: self.depth, endianness: self.endianness }
    }

    /// The whole payload.
    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The current position, counted from the start of the payload.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Moves to `position`, counted from the start of the payload.
    #[inline]
    pub(crate) fn seek(&mut self, position: usize) {
        self.position = position;
    }

    /// Whether the payload holds all members or the key members only.
    #[inline]
    pub fn form(&self) -> Form {
        self.form
    }

    /// The representation that is read.
    #[inline]
    pub fn representation(&self) -> Representation {
        self.representation
    }

    /// The byte order that is read.
    #[inline]
    pub fn endianness(&self) -> Endianness {
        self.endianness
    }

    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.position - self.origin
    }

    /// How many bytes are left in the window.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end.saturating_sub(self.position)
    }

    /// An error at the current position.
    #[cold]
    pub fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind, self.position)
    }

    /// Skips padding up to a multiple of `alignment` (a power of two up to 8; the representation may require less).
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn align(&mut self, alignment: usize) -> Result<(), DecodeError> {
        let count = padding(self.offset(), alignment.min(self.representation.max_alignment()));
        if count > 0 {
            self.take(count)?;
        }
        Ok(())
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let window = self.bytes.get(self.position..self.end).unwrap_or_default();
        match window.get(..count) {
            Some(taken) => {
                self.position += count;
                Ok(taken)
            }
            None => Err(self.error(DecodeErrorKind::UnexpectedEnd)),
        }
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let window = self.bytes.get(self.position..self.end).unwrap_or_default();
        match window.first_chunk() {
            Some(taken) => {
                self.position += N;
                Ok(*taken)
            }
            None => Err(self.error(DecodeErrorKind::UnexpectedEnd)),
        }
    }

    /// An aligned number.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn take_u32(&mut self) -> Result<u32, DecodeError> {
        self.align(4)?;
        let bytes = self.take_array()?;
        Ok(match self.endianness {
            Endianness::Big => u32::from_be_bytes(bytes),
            Endianness::Little => u32::from_le_bytes(bytes),
        })
    }

    #[inline]
    fn take_u16(&mut self) -> Result<u16, DecodeError> {
        let bytes = self.take_array()?;
        Ok(match self.endianness {
            Endianness::Big => u16::from_be_bytes(bytes),
            Endianness::Little => u16::from_le_bytes(bytes),
        })
    }

    /// A length in bytes, checked against the rest of the window.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn take_len(&mut self) -> Result<usize, DecodeError> {
        let len = self.take_u32()? as usize;
        if len > self.remaining() {
            return Err(self.error(DecodeErrorKind::UnexpectedEnd));
        }
        Ok(len)
    }

    /// A number of elements of at least `min_size` bytes each, checked against the rest of the window and against
    /// `bound`.
    ///
    /// # Errors
    /// [`DecodeErrorKind::InvalidLength`], [`DecodeErrorKind::BoundExceeded`], [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn take_count(&mut self, min_size: usize, bound: Option<usize>) -> Result<usize, DecodeError> {
        /// Elements that take no bytes cannot be checked against the payload, yet each costs time.
        const MAX_EMPTY_ELEMENTS: usize = 65_536;
        let count = self.take_u32()? as usize;
        let most = self.remaining().checked_div(min_size).unwrap_or(MAX_EMPTY_ELEMENTS);
        if count > most {
            return Err(self.error(DecodeErrorKind::InvalidLength));
        }
        if bound.is_some_and(|bound| count > bound) {
            return Err(self.error(DecodeErrorKind::BoundExceeded));
        }
        Ok(count)
    }

    /// Enters an object that has a DHEADER in XCDR2 when `delimited`: its end becomes the end of the window.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn begin_delimited(&mut self, delimited: bool) -> Result<Aggregate, DecodeError> {
        let outer_end = self.end;
        let delimited = delimited && self.representation == Representation::Xcdr2;
        if delimited {
            let len = self.take_len()?;
            self.end = self.position + len;
        }
        Ok(Aggregate { outer_end, delimited })
    }

    /// Leaves an object, skipping the rest of it.
    #[inline]
    pub fn end_delimited(&mut self, aggregate: Aggregate) {
        if aggregate.delimited {
            self.position = self.end;
        }
        self.end = aggregate.outer_end;
    }

    /// Enters a structure or union.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TooDeep`], [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn begin_aggregate(&mut self, extensibility: Extensibility) -> Result<Aggregate, DecodeError> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(DecodeErrorKind::TooDeep));
        }
        self.depth += 1;
        self.begin_delimited(!extensibility.is_final())
    }

    /// Leaves a structure or union, skipping members that were appended to it.
    #[inline]
    pub fn end_aggregate(&mut self, aggregate: Aggregate) {
        self.depth -= 1;
        self.end_delimited(aggregate);
    }

    /// Whether a caller continues to read behind this object: false at the top level, and where a DHEADER gives the end
    /// of the structure.
    #[inline]
    pub fn must_reach_end(&self, aggregate: &Aggregate) -> bool {
        self.depth > 1 && !aggregate.delimited
    }

    /// Whether an appendable object ends before a member that takes at least `min_size` bytes. Senders that leave the
    /// padding bits of the options zero have up to three bytes of padding at the end.
    #[inline]
    pub fn is_absent(&self, extensibility: Extensibility, min_size: usize) -> bool {
        let remaining = self.remaining();
        extensibility == Extensibility::Appendable && (remaining == 0 || remaining < 4 && remaining < min_size)
    }

    /// Enters the next member of a mutable structure or union; `None` at its end.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`], [`DecodeErrorKind::InvalidLength`].
    pub fn next_parameter(&mut self) -> Result<Option<Parameter>, DecodeError> {
        match self.representation {
            Representation::Xcdr1 => self.next_parameter_xcdr1(),
            Representation::Xcdr2 => self.next_parameter_xcdr2(),
        }
    }

    /// Whether a mutable structure in XCDR2 ends here: neither another member nor an error follows.
    #[inline]
    pub fn is_past_parameters(&self) -> bool {
        self.representation == Representation::Xcdr2 && self.remaining() <= padding(self.offset(), 4)
    }

    /// The bytes from the next header of a member of a mutable structure on, if they are XCDR2 in the native byte
    /// order.
    #[inline]
    pub(crate) fn native_ahead(&self) -> Option<&'a [u8]> {
        let is_native = self.representation == Representation::Xcdr2 && self.endianness == Endianness::NATIVE;
        if is_native { self.bytes.get(self.position + padding(self.offset(), 4)..self.end) } else { None }
    }

    /// Skips the next member of a mutable structure in XCDR2 if it is `id` with a value of `size` bytes, and returns
    /// the position of the value; otherwise does not move.
    #[inline]
    pub(crate) fn pass_parameter(&mut self, id: u32, size: usize) -> Option<usize> {
        if self.representation != Representation::Xcdr2 {
            return None;
        }
        let mut ahead = self.clone();
        let header = ahead.take_u32().ok()?;
        let len = match (header >> 28) & 7 {
            code @ 0..=3 => 1 << code,
            4 => ahead.take_u32().ok()? as usize,
            _ => return None,
        };
        if header & MEMBER_ID_MASK != id || len != size {
            return None;
        }
        let value = ahead.position;
        ahead.take(size).ok()?;
        self.position = ahead.position;
        Some(value)
    }

    fn next_parameter_xcdr2(&mut self) -> Result<Option<Parameter>, DecodeError> {
        if self.remaining() <= padding(self.offset(), 4) {
            return Ok(None);
        }
        let header = self.take_u32()?;
        let code = (header >> 28) & 7;
        let unit = match code {
            0..=5 => 1,
            6 => 4,
            _ => 8,
        };
        let len = match code {
            0..=3 => 1 << code,
            4 => self.take_len()?,
            // The length word is the first word of the value.
            _ => {
                let rest = self.clone().take_u32()? as usize;
                rest.checked_mul(unit).and_then(|rest| rest.checked_add(4)).unwrap_or(usize::MAX)
            }
        };
        let mut parameter = self.enter_parameter(header & MEMBER_ID_MASK, header & EM_MUST_UNDERSTAND != 0, len)?;
        parameter.shares_length = code > 4;
        Ok(Some(parameter))
    }

    fn next_parameter_xcdr1(&mut self) -> Result<Option<Parameter>, DecodeError> {
        loop {
            self.align(4)?;
            let (pid, len) = (self.take_u16()?, self.take_u16()?);
            match pid & PID_MASK {
                PID_LIST_END => return Ok(None),
                PID_IGNORE => _ = self.take(usize::from(len))?,
                _ => return self.enter_parameter_xcdr1(pid, len).map(Some),
            }
        }
    }

    /// Enters the parameter that holds an optional member in XCDR1.
    pub(crate) fn begin_optional_xcdr1(&mut self) -> Result<Parameter, DecodeError> {
        self.align(4)?;
        let (pid, len) = (self.take_u16()?, self.take_u16()?);
        self.enter_parameter_xcdr1(pid, len)
    }

    fn enter_parameter_xcdr1(&mut self, pid: u16, len: u16) -> Result<Parameter, DecodeError> {
        let mut parameter = if pid & PID_MASK == PID_EXTENDED {
            if len != 8 {
                return Err(self.error(DecodeErrorKind::InvalidLength));
            }
            let (member, len) = (self.take_u32()?, self.take_u32()? as usize);
            self.enter_parameter(member & MEMBER_ID_MASK, member & LONG_MUST_UNDERSTAND != 0, len)?
        } else {
            let id = u32::from(pid & PID_MASK);
            self.enter_parameter(id, pid & PID_MUST_UNDERSTAND != 0, usize::from(len))?
        };
        parameter.outer_origin = core::mem::replace(&mut self.origin, self.position);
        Ok(parameter)
    }

    fn enter_parameter(&mut self, id: u32, must_understand: bool, len: usize) -> Result<Parameter, DecodeError> {
        if len > self.remaining() {
            return Err(self.error(DecodeErrorKind::UnexpectedEnd));
        }
        let outer_end = core::mem::replace(&mut self.end, self.position + len);
        Ok(Parameter { id, must_understand, shares_length: false, outer_end, outer_origin: self.origin })
    }

    /// Leaves a member, skipping the rest of it.
    #[inline]
    pub fn end_parameter(&mut self, parameter: Parameter) {
        self.position = self.end;
        self.end = parameter.outer_end;
        self.origin = parameter.outer_origin;
    }

    /// Leaves an unknown member.
    ///
    /// # Errors
    /// [`DecodeErrorKind::MustUnderstand`] when the sender forbids to ignore it.
    pub fn skip_unknown(&mut self, parameter: Parameter) -> Result<(), DecodeError> {
        if parameter.must_understand {
            return Err(self.error(DecodeErrorKind::MustUnderstand));
        }
        self.end_parameter(parameter);
        Ok(())
    }

    /// Skips the remaining members of a mutable structure or union.
    ///
    /// # Errors
    /// The errors of [`next_parameter`](Self::next_parameter).
    pub fn skip_parameters(&mut self) -> Result<(), DecodeError> {
        while let Some(parameter) = self.next_parameter()? {
            self.end_parameter(parameter);
        }
        Ok(())
    }

    /// A decoder of the value of the last member `id` from here to the end of the structure, if there is one.
    ///
    /// # Errors
    /// The errors of [`next_parameter`](Self::next_parameter).
    pub fn find_parameter(&self, id: u32) -> Result<Option<Self>, DecodeError> {
        let (mut list, mut found) = (self.clone(), None);
        while let Some(parameter) = list.next_parameter()? {
            if parameter.id == id {
                found = Some(list.clone());
            }
            list.end_parameter(parameter);
        }
        Ok(found)
    }
}
