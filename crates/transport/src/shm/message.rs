//! Messages between the two sides of a channel over their link: a fixed form for each message, in the byte order of the
//! host, with its descriptors.

use super::ring::{Overflow, Shape};

/// Identifies this protocol and its version.
const MAGIC: u64 = u64::from_be_bytes(*b"Peregr09");

/// Length of every message, in bytes.
pub const MESSAGE_BYTES: usize = 64;
const WORDS: usize = MESSAGE_BYTES / 8;

/// Identifies a writer of a process; the user of this module defines its meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WriterKey(pub [u8; 16]);

/// Identifies a reader of a process; the user of this module defines its meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ReaderKey(pub [u8; 16]);

/// Words of a [`UserMessage`].
pub const USER_WORDS: usize = WORDS - 2;

/// A message between the users of the two sides of a channel; this module does not interpret it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserMessage(pub [u64; USER_WORDS]);

/// Why a writer does not admit a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The process has no such writer.
    NoSuchWriter,
    /// The writer has as many readers as its configuration allows.
    TooManyReaders,
    /// The descriptors that the reader sent are not as announced.
    BadMemory,
    /// One side does not see the value that the other side stored in shared memory.
    NotTheSameMemory,
    /// The writer's process is short of descriptors or memory.
    NoResources,
    /// Any other reason.
    Other,
}

impl Refusal {
    const ALL: [Self; 6] = [
        Self::NoSuchWriter,
        Self::TooManyReaders,
        Self::BadMemory,
        Self::NotTheSameMemory,
        Self::NoResources,
        Self::Other,
    ];

    /// Whether the same request would be refused again: the reason is neither a lack of something nor that the process
    /// does not know something yet.
    #[must_use]
    pub const fn is_lasting(self) -> bool {
        match self {
            Self::NoSuchWriter | Self::TooManyReaders | Self::NoResources => false,
            Self::BadMemory | Self::NotTheSameMemory | Self::Other => true,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSuchWriter => "the other process has no such writer",
            Self::TooManyReaders => "the writer has as many readers as its configuration allows",
            Self::BadMemory => "the memory that was offered is not acceptable",
            Self::NotTheSameMemory => "the two processes do not see the same memory",
            Self::NoResources => "the writer's process is short of descriptors or memory",
            Self::Other => "the writer has refused",
        })
    }
}

/// A message on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Message {
    /// Reader to writer, first: requests admission. Carries the sleeper page and the hold page.
    Hello {
        /// The requested writer.
        writer: WriterKey,
        /// The reader that requests it.
        reader: ReaderKey,
        /// Number of samples that the reader wants to hold.
        holds: u32,
        /// Value that the reader stored in its hold page.
        probe: u64,
    },
    /// Writer to reader: admits the reader. Carries the ring and the page of doorbells.
    Welcome {
        /// Entries of the ring.
        entries: u32,
        /// Number of samples that the reader may hold.
        holds: u32,
        /// The treatment of entries that a slow reader has not taken.
        overflow: Overflow,
        /// Index of the doorbell of this reader process.
        doorbell: u32,
        /// Value that the writer stored in the ring.
        probe: u64,
    },
    /// Writer to reader: refuses admission.
    Refused(Refusal),
    /// Writer to reader: samples may be in this segment from now on. Carries the segment.
    Segment {
        /// Its number; never reused.
        segment: u32,
        /// Its length, in bytes.
        len: u64,
    },
    /// Writer to reader: no sample will be in this segment any more.
    Retired {
        /// Its number.
        segment: u32,
    },
    /// Reader to writer, on request: there may be room again.
    Room,
    /// Either side: the sender ends the channel, and its process goes on. The link of a reader stays open until the
    /// application has released the last sample.
    Leave,
    /// Either side: a message of its user.
    User(UserMessage),
}

impl Message {
    /// Number of descriptors that the message carries.
    #[must_use]
    pub const fn descriptors(&self) -> usize {
        match self {
            Self::Hello { .. } | Self::Welcome { .. } => 2,
            Self::Segment { .. } => 1,
            Self::Refused(_) | Self::Retired { .. } | Self::Room | Self::Leave | Self::User(_) => 0,
        }
    }

    /// Encoded form of the message.
    #[must_use]
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let words: [u64; USER_WORDS] = match *self {
            Self::Hello { writer, reader, holds, probe } => {
                let (WriterKey(writer), ReaderKey(reader)) = (writer, reader);
                let (low, high) = split(u128::from_ne_bytes(writer));
                let (reader_low, reader_high) = split(u128::from_ne_bytes(reader));
                [low, high, u64::from(holds), probe, reader_low, reader_high]
            }
            Self::Welcome { entries, holds, overflow, doorbell, probe } => {
                let evicts = u64::from(overflow == Overflow::Evict);
                [u64::from(entries), u64::from(holds), evicts, u64::from(doorbell), probe, 0]
            }
            Self::Refused(reason) => {
                let place = Refusal::ALL.iter().position(|&other| other == reason).unwrap_or(Refusal::ALL.len());
                [place as u64, 0, 0, 0, 0, 0]
            }
            Self::Segment { segment, len } => [u64::from(segment), len, 0, 0, 0, 0],
            Self::Retired { segment } => [u64::from(segment), 0, 0, 0, 0, 0],
            Self::Room | Self::Leave => [0; USER_WORDS],
            Self::User(UserMessage(words)) => words,
        };
        let mut bytes = [0; MESSAGE_BYTES];
        let all = [MAGIC, self.kind()].into_iter().chain(words);
        for (place, word) in bytes.chunks_exact_mut(8).zip(all) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Decodes a message; `None` unless a working peer could have sent it.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*place);
        }
        let [MAGIC, kind, a, b, c, d, e, f] = words else { return None };
        if !matches!(kind, 0 | 7) && f != 0 {
            return None;
        }
        let number = |word: u64| u32::try_from(word).ok();
        let message = match kind {
            0 => {
                let (writer, reader) = (WriterKey(join(a, b)), ReaderKey(join(e, f)));
                Self::Hello { writer, reader, holds: number(c)?, probe: d }
            }
            1 => {
                let overflow = match c {
                    0 => Overflow::Block,
                    1 => Overflow::Evict,
                    _ => return None,
                };
                Self::Welcome { entries: number(a)?, holds: number(b)?, overflow, doorbell: number(d)?, probe: e }
            }
            2 => Self::Refused(
                usize::try_from(a).ok().and_then(|at| Refusal::ALL.get(at)).copied().unwrap_or(Refusal::Other),
            ),
            3 => Self::Segment { segment: number(a)?, len: b },
            4 => Self::Retired { segment: number(a)? },
            5 => Self::Room,
            6 => Self::Leave,
            7 => Self::User(UserMessage([a, b, c, d, e, f])),
            _ => return None,
        };
        message.is_sound().then_some(message)
    }

    fn kind(&self) -> u64 {
        match self {
            Self::Hello { .. } => 0,
            Self::Welcome { .. } => 1,
            Self::Refused(_) => 2,
            Self::Segment { .. } => 3,
            Self::Retired { .. } => 4,
            Self::Room => 5,
            Self::Leave => 6,
            Self::User(_) => 7,
        }
    }

    fn is_sound(&self) -> bool {
        match *self {
            Self::Hello { holds, .. } => holds > 0 && holds <= Shape::MAX,
            Self::Welcome { entries, holds, overflow, doorbell, .. } => {
                doorbell < super::wake::DOORBELLS && Shape { entries, holds, overflow }.check().is_ok()
            }
            Self::Segment { segment, .. } | Self::Retired { segment } => segment > 0,
            Self::Refused(_) | Self::Room | Self::Leave | Self::User(_) => true,
        }
    }
}

fn join(low: u64, high: u64) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_ne_bytes()
}

fn split(wide: u128) -> (u64, u64) {
    (wide as u64, (wide >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn messages() -> impl Strategy<Value = Message> {
        let sizes = (0_u32..15, 1..=Shape::MAX);
        prop_oneof![
            (any::<([u8; 16], [u8; 16])>(), 1..=Shape::MAX, any::<u64>()).prop_map(|(keys, holds, probe)| {
                Message::Hello { writer: WriterKey(keys.0), reader: ReaderKey(keys.1), holds, probe }
            }),
            (sizes, any::<bool>(), 0..super::super::wake::DOORBELLS, any::<u64>()).prop_map(
                |((power, holds), evicts, doorbell, probe)| Message::Welcome {
                    entries: 1 << power,
                    holds,
                    overflow: if evicts { Overflow::Evict } else { Overflow::Block },
                    doorbell,
                    probe
                }
            ),
            (0..Refusal::ALL.len()).prop_map(|at| Message::Refused(Refusal::ALL[at])),
            (1..=u32::MAX, any::<u64>()).prop_map(|(segment, len)| Message::Segment { segment, len }),
            (1..=u32::MAX).prop_map(|segment| Message::Retired { segment }),
            Just(Message::Room),
            Just(Message::Leave),
            any::<[u64; USER_WORDS]>().prop_map(|words| Message::User(UserMessage(words))),
        ]
    }

    proptest! {
        #[test]
        fn encoded_message_decodes_to_itself(message in messages()) {
            prop_assert_eq!(Message::decode(&message.encode()), Some(message));
        }

        #[test]
        fn damaged_message_decodes_to_a_valid_one_or_not_at_all(
            message in messages(), place in 0..MESSAGE_BYTES, byte: u8, len in 0..=MESSAGE_BYTES
        ) {
            let mut bytes = message.encode();
            bytes[place] = byte;
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Some(message));
            }
            prop_assert_eq!(Message::decode(&bytes[..len]).is_some(), len == MESSAGE_BYTES && Message::decode(&bytes).is_some());
        }
    }
}
