//! Where encoded octets go.

use alloc::vec::Vec;

use md5::{Digest, Md5};

use crate::error::EncodeError;

/// Receives encoded octets in order. The same encoder feeds every sink, so a counted size and the written octets
/// cannot disagree.
pub trait Sink {
    /// How many octets have been put so far.
    fn position(&self) -> usize;

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError>;

    /// Overwrites four octets that were put at position `at`.
    fn patch(&mut self, at: usize, bytes: [u8; 4]);

    /// Moves what was put at and after position `at` by `count` octets towards the end.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    fn open_gap(&mut self, at: usize, count: usize) -> Result<(), EncodeError>;
}

/// Counts octets, keeps none.
#[derive(Debug, Default)]
pub struct CountingSink {
    position: usize,
}

impl Sink for CountingSink {
    #[inline]
    fn position(&self) -> usize {
        self.position
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.position = self.position.checked_add(bytes.len()).ok_or(EncodeError::TooLarge)?;
        Ok(())
    }

    #[inline]
    fn patch(&mut self, _at: usize, _bytes: [u8; 4]) {}

    #[inline]
    fn open_gap(&mut self, _at: usize, count: usize) -> Result<(), EncodeError> {
        self.position = self.position.checked_add(count).ok_or(EncodeError::TooLarge)?;
        Ok(())
    }
}

/// Writes into a slice, from its start.
#[derive(Debug)]
pub struct SliceSink<'b> {
    buffer: &'b mut [u8],
    position: usize,
}

impl<'b> SliceSink<'b> {
    /// An empty sink over `buffer`.
    pub fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, position: 0 }
    }
}

impl Sink for SliceSink<'_> {
    #[inline]
    fn position(&self) -> usize {
        self.position
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let free = self.buffer.get_mut(self.position..).unwrap_or_default();
        let target = free.get_mut(..bytes.len()).ok_or(EncodeError::BufferTooSmall)?;
        target.copy_from_slice(bytes);
        self.position += bytes.len();
        Ok(())
    }

    #[inline]
    fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        patch_slice(self.buffer, at, bytes);
    }

    fn open_gap(&mut self, at: usize, count: usize) -> Result<(), EncodeError> {
        let end = self.position.checked_add(count).ok_or(EncodeError::TooLarge)?;
        if end > self.buffer.len() || at > self.position {
            return Err(EncodeError::BufferTooSmall);
        }
        self.buffer.copy_within(at..self.position, at + count);
        self.position = end;
        Ok(())
    }
}

/// Appends to the vector, which grows as needed.
impl Sink for Vec<u8> {
    #[inline]
    fn position(&self) -> usize {
        self.len()
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        patch_slice(self, at, bytes);
    }

    fn open_gap(&mut self, at: usize, count: usize) -> Result<(), EncodeError> {
        let end = self.len();
        if at > end {
            return Err(EncodeError::BufferTooSmall);
        }
        self.resize(end.checked_add(count).ok_or(EncodeError::TooLarge)?, 0);
        self.copy_within(at..end, at + count);
        Ok(())
    }
}

fn patch_slice(buffer: &mut [u8], at: usize, bytes: [u8; 4]) {
    if let Some(target) = buffer.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *target = bytes;
    }
}

/// Makes the 16 octets of a key hash from the KeyHolder in big-endian PLAIN_CDR2 (RTPS 2.5 §9.6.4.8).
pub(crate) enum KeyHashSink {
    /// The greatest size of the key is at most 16 octets: the hash is the key.
    Short { hash: [u8; 16], len: usize },
    /// The key is digested as it comes.
    Digest { context: Md5, len: usize },
    /// The key holds collections with a length in front that is known only behind them.
    Collected(Vec<u8>),
}

impl KeyHashSink {
    #[inline]
    pub(crate) fn new(max_size: Option<usize>, delimited: bool) -> Self {
        match max_size {
            Some(0..=16) => Self::Short { hash: [0; 16], len: 0 },
            _ if delimited => Self::Collected(Vec::new()),
            _ => Self::Digest { context: Md5::new(), len: 0 },
        }
    }

    #[inline]
    pub(crate) fn finish(self) -> [u8; 16] {
        match self {
            Self::Short { hash, .. } => hash,
            Self::Digest { context, .. } => context.finalize().into(),
            Self::Collected(bytes) => Md5::digest(bytes).into(),
        }
    }
}

impl Sink for KeyHashSink {
    #[inline]
    fn position(&self) -> usize {
        match self {
            Self::Short { len, .. } | Self::Digest { len, .. } => *len,
            Self::Collected(bytes) => bytes.len(),
        }
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        match self {
            Self::Short { hash, len } => {
                let free = hash.get_mut(*len..).unwrap_or_default();
                free.get_mut(..bytes.len()).ok_or(EncodeError::BufferTooSmall)?.copy_from_slice(bytes);
                *len += bytes.len();
            }
            Self::Digest { context, len } => {
                context.update(bytes);
                *len += bytes.len();
            }
            Self::Collected(all) => all.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        match self {
            Self::Short { hash, .. } => patch_slice(hash, at, bytes),
            Self::Collected(all) => patch_slice(all, at, bytes),
            Self::Digest { .. } => debug_assert!(false, "only keys without delimited collections are digested"),
        }
    }

    fn open_gap(&mut self, _at: usize, _count: usize) -> Result<(), EncodeError> {
        debug_assert!(false, "XCDR2 has no headers that grow");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_sink_refuses_what_does_not_fit_and_keeps_its_position() {
        let mut buffer = [0; 4];
        let mut sink = SliceSink::new(&mut buffer);
        sink.put(&[1, 2, 3]).unwrap();
        assert_eq!(sink.put(&[4, 5]), Err(EncodeError::BufferTooSmall));
        assert_eq!(sink.position(), 3);
        sink.put(&[4]).unwrap();
        assert_eq!(sink.open_gap(0, 1), Err(EncodeError::BufferTooSmall));
        assert_eq!(buffer, [1, 2, 3, 4]);
    }

    #[test]
    fn a_gap_moves_the_tail() {
        let mut buffer = [0; 6];
        let mut sink = SliceSink::new(&mut buffer);
        sink.put(&[1, 2, 3, 4]).unwrap();
        sink.open_gap(2, 2).unwrap();
        assert_eq!(sink.position(), 6);
        assert_eq!(buffer[4..], [3, 4]);
    }
}
