//! The memory that builders write into.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::encapsulation::{Encapsulation, Endianness, Extensibility, Representation};
use crate::encoder::{Encoder, Length, MAX_DEPTH};
use crate::error::EncodeError;
use crate::extent::padding;
use crate::flat::error::FlatError;
use crate::plain;
use crate::sink::Sink;
use crate::types::DdsType;

/// The memory in which a sample is built: a slice of fixed size, or a vector that grows.
#[derive(Debug)]
enum Memory<'w> {
    Slice(&'w mut [u8]),
    Vec(&'w mut Vec<u8>),
}

/// A lifetime that is neither shortened nor extended: no builder can return the [`Done`] of another.
type Brand<'w> = PhantomData<fn(&'w ()) -> &'w ()>;

/// Writes a sample, or a part of it, in XCDR2 and the native byte order. Builders hold one such writer.
///
/// A nested builder borrows the memory and has its own position, which [`Done`] returns. The output of a builder that
/// was dropped unfinished is overwritten.
#[derive(Debug)]
pub struct Writer<'w> {
    memory: Memory<'w>,
    position: usize,
    depth: usize,
    /// Whether the payload ends with this part.
    is_whole: bool,
    brand: Brand<'w>,
}

/// The result of finishing a builder. Only a builder can make it.
#[must_use = "it holds the length of the payload"]
pub struct Done<'w, T> {
    position: usize,
    brand: Brand<'w>,
    of: PhantomData<fn() -> T>,
}

impl<T> Done<'_, T> {
    /// The length in bytes of the payload so far, with its encapsulation header: of the complete payload when the
    /// outermost builder is finished.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a payload is never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.position
    }
}

debug_without_bounds! {
    [T] Done<'_, T> { position },
}

impl<'w> Writer<'w> {
    /// Starts a payload in `buffer`.
    #[inline]
    pub(crate) fn in_slice(buffer: &'w mut [u8]) -> Result<Self, FlatError> {
        Self::start(Memory::Slice(buffer))
    }

    /// Starts a payload in `buffer`, whose contents are discarded.
    #[inline]
    pub(crate) fn in_vec(buffer: &'w mut Vec<u8>) -> Result<Self, FlatError> {
        Self::start(Memory::Vec(buffer))
    }

    /// Overwrites `bytes` from `position`.
    #[inline]
    pub(crate) fn over(bytes: &'w mut [u8], position: usize) -> Self {
        Self { memory: Memory::Slice(bytes), position, depth: 0, is_whole: false, brand: PhantomData }
    }

    #[inline]
    fn start(memory: Memory<'w>) -> Result<Self, FlatError> {
        let mut writer = Self { memory, position: 0, depth: 0, is_whole: true, brand: PhantomData };
        writer.put(&[0; Encapsulation::LEN])?;
        Ok(writer)
    }

    /// A writer of a part of the sample that this writer writes.
    #[inline(always)]
    pub(crate) fn part(&mut self) -> Writer<'_> {
        let memory = match &mut self.memory {
            Memory::Slice(buffer) => Memory::Slice(buffer),
            Memory::Vec(buffer) => Memory::Vec(buffer),
        };
        Writer { memory, position: self.position, depth: self.depth, is_whole: false, brand: PhantomData }
    }

    /// An encoder at the current position.
    #[inline]
    pub(crate) fn encoder(&mut self) -> Encoder<'_, Self> {
        let depth = self.depth;
        Encoder::resume(self, Encapsulation::LEN, depth, Endianness::NATIVE)
    }

    /// Returns to an earlier position.
    #[inline]
    pub(crate) fn rewind(&mut self, position: usize) {
        self.position = position;
    }

    /// Opens a structure or union.
    #[inline]
    pub(crate) fn begin_aggregate(&mut self, extensibility: Extensibility) -> Result<Length, FlatError> {
        if self.depth >= MAX_DEPTH {
            return Err(EncodeError::TooDeep.into());
        }
        self.depth += 1;
        Ok(self.begin_delimited(!extensibility.is_final())?)
    }

    /// Opens an object that has a DHEADER when `delimited`.
    #[inline(always)]
    pub(crate) fn begin_delimited(&mut self, delimited: bool) -> Result<Length, EncodeError> {
        if !delimited {
            return Ok(Length::NONE);
        }
        let at = self.put_word(0)?;
        Ok(Length { at: Some(at) })
    }

    /// Closes an object: writes its length in front of it.
    #[inline(always)]
    pub(crate) fn end_delimited(&mut self, length: Length) -> Result<(), EncodeError> {
        let Some(at) = length.at else { return Ok(()) };
        let len = u32::try_from(self.position - at - size_of::<u32>()).map_err(|_| EncodeError::TooLarge)?;
        self.patch(at, len.to_ne_bytes());
        Ok(())
    }

    /// Writes an aligned number, and returns its position.
    #[inline(always)]
    pub(crate) fn put_word(&mut self, word: u32) -> Result<usize, EncodeError> {
        self.align_word()?;
        let at = self.position;
        self.put(&word.to_ne_bytes())?;
        Ok(at)
    }

    #[inline(always)]
    fn align_word(&mut self) -> Result<(), EncodeError> {
        self.put_padding(padding(self.position, 4))
    }

    #[inline(always)]
    fn put_padding(&mut self, count: usize) -> Result<(), EncodeError> {
        if count == 0 { Ok(()) } else { self.put([0; 3].get(..count).unwrap_or_default()) }
    }

    /// Writes a member of a mutable structure whose value is `bytes`.
    #[inline(always)]
    pub(crate) fn put_bytes(&mut self, header: u32, has_length: bool, bytes: &[u8]) -> Result<(), EncodeError> {
        self.align_word()?;
        let len = u32::try_from(bytes.len()).map_err(|_| EncodeError::TooLarge)?;
        let heads = if has_length { 2 * size_of::<u32>() } else { size_of::<u32>() };
        let end = self.position.checked_add(heads + bytes.len()).ok_or(EncodeError::TooLarge)?;
        let member = self.memory.range_mut(self.position, end)?;
        let (heads, value) = member.split_at_mut(heads);
        let words = [header.to_ne_bytes(), len.to_ne_bytes()];
        for (at, word) in heads.chunks_exact_mut(size_of::<u32>()).zip(words) {
            at.copy_from_slice(&word);
        }
        value.copy_from_slice(bytes);
        self.position = end;
        Ok(())
    }

    /// The next `count` elements of a sequence or array, if they can be filled in place.
    #[inline]
    pub(crate) fn elements_mut<T: DdsType>(&mut self, count: usize) -> Result<Option<&mut [T]>, FlatError> {
        if !plain::is_borrowable_at::<T>(Endianness::NATIVE, self.position - Encapsulation::LEN) {
            return Ok(None);
        }
        let len = size_of::<T>().checked_mul(count).ok_or(EncodeError::TooLarge)?;
        let start = self.position;
        let end = start.checked_add(len).ok_or(EncodeError::TooLarge)?;
        let Some(slice) = plain::slice_of_mut(self.memory.range_mut(start, end)?) else { return Ok(None) };
        self.position = end;
        Ok(Some(slice))
    }

    /// Ends the part or sample that this writer has begun. A whole sample is padded, and gets its encapsulation header.
    #[inline(always)]
    pub(crate) fn finish<T: DdsType>(mut self) -> Result<Done<'w, T>, FlatError> {
        if self.is_whole {
            let padding = padding(self.position, 4);
            self.put_padding(padding)?;
            let header = Encapsulation::new(Representation::Xcdr2, T::EXTENSIBILITY, Endianness::NATIVE, padding);
            self.patch(0, header.to_bytes());
            self.memory.truncate(self.position);
        }
        Ok(Done { position: self.position, brand: PhantomData, of: PhantomData })
    }
}

impl Memory<'_> {
    /// The bytes from `start` to `end`. A vector grows to contain them.
    #[inline(always)]
    fn range_mut(&mut self, start: usize, end: usize) -> Result<&mut [u8], EncodeError> {
        let bytes = match self {
            Self::Slice(buffer) => buffer,
            Self::Vec(buffer) => {
                if buffer.len() < end {
                    grow(buffer, end);
                }
                buffer.as_mut_slice()
            }
        };
        bytes.get_mut(start..end).ok_or(EncodeError::BufferTooSmall)
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        if let Self::Vec(buffer) = self {
            buffer.truncate(len);
        }
    }
}

/// Grows the buffer. A separate function, so that it is not inlined into every builder.
#[cold]
fn grow(buffer: &mut Vec<u8>, len: usize) {
    buffer.resize(len, 0);
}

impl Sink for Writer<'_> {
    #[inline]
    fn position(&self) -> usize {
        self.position
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let end = self.position.checked_add(bytes.len()).ok_or(EncodeError::TooLarge)?;
        self.memory.range_mut(self.position, end)?.copy_from_slice(bytes);
        self.position = end;
        Ok(())
    }

    #[inline(always)]
    fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        if let Ok(target) = self.memory.range_mut(at, at + bytes.len()) {
            target.copy_from_slice(&bytes);
        }
    }

    fn open_gap(&mut self, at: usize, count: usize) -> Result<(), EncodeError> {
        let end = self.position.checked_add(count).ok_or(EncodeError::TooLarge)?;
        let tail = self.memory.range_mut(at, end)?;
        tail.copy_within(..tail.len() - count, count);
        self.position = end;
        Ok(())
    }
}
