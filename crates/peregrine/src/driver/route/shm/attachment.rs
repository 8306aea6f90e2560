//! Messages by which the readers of a process share its channel from a writer.
//!
//! The reader process names one reader when it requests the channel. That reader has index 0, and every further one
//! attaches to the channel with the next index.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | `Attach` | reader process | another reader requests the samples of the channel |
//! | `Accepted` | writer process | the writer matches the reader |
//! | `Ready` | reader process | acknowledgements of the channel cover the reader from now on; the writer begins |
//! | `Rewind` | reader process | the reader lacked room for some changes and requests them again; `NotLive` answers |
//! | `Detach` | reader process | the reader needs no more samples |
//! | `Dismissed` | writer process | the reader is not, or no longer, attached: it gets messages |

use peregrine_rtps::id::Guid;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_transport::shm::{USER_WORDS, UserMessage};

/// A message about one reader of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::driver) struct Attachment {
    /// Index of the reader in its channel; never reused.
    pub(in crate::driver) index: u32,
    pub(in crate::driver) kind: AttachmentKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::driver) enum AttachmentKind {
    Attach {
        reader: Guid,
    },
    Accepted,
    Ready,
    Rewind {
        /// Incremented by each rewind of this reader. The answer repeats it, so that the reader skips entries from
        /// before.
        epoch: u32,
        /// First change that the reader lacks.
        from: SequenceNumber,
    },
    Detach,
    Dismissed,
}

const ATTACH: u64 = 1;
const ACCEPTED: u64 = 2;
const READY: u64 = 3;
const REWIND: u64 = 4;
const DETACH: u64 = 5;
const DISMISSED: u64 = 6;

impl Attachment {
    pub(in crate::driver) fn encode(self) -> UserMessage {
        let index = u64::from(self.index);
        let words: [u64; USER_WORDS] = match self.kind {
            AttachmentKind::Attach { reader } => {
                let wide = u128::from_ne_bytes(reader.to_bytes());
                [ATTACH, index, wide as u64, (wide >> 64) as u64, 0, 0]
            }
            AttachmentKind::Accepted => [ACCEPTED, index, 0, 0, 0, 0],
            AttachmentKind::Ready => [READY, index, 0, 0, 0, 0],
            AttachmentKind::Rewind { epoch, from } => [REWIND, index, u64::from(epoch), from.0.cast_unsigned(), 0, 0],
            AttachmentKind::Detach => [DETACH, index, 0, 0, 0, 0],
            AttachmentKind::Dismissed => [DISMISSED, index, 0, 0, 0, 0],
        };
        UserMessage(words)
    }

    /// `None` unless a working peer could have sent the message.
    pub(in crate::driver) fn decode(UserMessage(words): UserMessage) -> Option<Self> {
        let [kind, index, a, b, 0, 0] = words else { return None };
        let kind = match (kind, a, b) {
            (ATTACH, low, high) => AttachmentKind::Attach {
                reader: Guid::from_bytes((u128::from(high) << 64 | u128::from(low)).to_ne_bytes()),
            },
            (ACCEPTED, 0, 0) => AttachmentKind::Accepted,
            (READY, 0, 0) => AttachmentKind::Ready,
            (REWIND, epoch, from) => {
                let from = i64::try_from(from).ok().filter(|from| (1..i64::MAX).contains(from))?;
                AttachmentKind::Rewind { epoch: u32::try_from(epoch).ok()?, from: SequenceNumber(from) }
            }
            (DETACH, 0, 0) => AttachmentKind::Detach,
            (DISMISSED, 0, 0) => AttachmentKind::Dismissed,
            _ => return None,
        };
        // Entries have no room for the last index.
        let index = u32::try_from(index).ok().filter(|index| *index < u32::MAX)?;
        Some(Self { index, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = AttachmentKind> {
        prop_oneof![
            any::<[u8; 16]>().prop_map(|bytes| AttachmentKind::Attach { reader: Guid::from_bytes(bytes) }),
            (any::<u32>(), 1..i64::MAX)
                .prop_map(|(epoch, from)| AttachmentKind::Rewind { epoch, from: SequenceNumber(from) }),
            Just(AttachmentKind::Accepted),
            Just(AttachmentKind::Ready),
            Just(AttachmentKind::Detach),
            Just(AttachmentKind::Dismissed),
        ]
    }

    proptest! {
        #[test]
        fn encoded_attachment_decodes_to_itself(index in 0..u32::MAX, kind in kinds()) {
            let message = Attachment { index, kind };
            prop_assert_eq!(Attachment::decode(message.encode()), Some(message));
        }

        #[test]
        fn decoded_words_encode_to_themselves(kind in 0_u64..9, words: [u64; USER_WORDS]) {
            let mut words = words;
            words[0] = kind;
            for words in [words, words.map(|word| word & 0xFF), { words[4] = 0; words[5] = 0; words }] {
                if let Some(message) = Attachment::decode(UserMessage(words)) {
                    prop_assert_eq!(message.encode(), UserMessage(words));
                }
            }
        }
    }

    #[test]
    fn literal_words_of_a_rewind_decode() {
        let message = Attachment { index: 7, kind: AttachmentKind::Rewind { epoch: 2, from: SequenceNumber(1000) } };
        assert_eq!(Attachment::decode(UserMessage([4, 7, 2, 1000, 0, 0])), Some(message));
        for hostile in [
            [4, 7, 2, 0, 0, 0],
            [4, 7, 2, i64::MAX as u64, 0, 0],
            [4, 7, 1 << 32, 1000, 0, 0],
            [4, 1 << 32, 2, 1000, 0, 0],
            [4, 7, 2, 1000, 0, 1],
            [3, 7, 1, 0, 0, 0],
            [0, 7, 0, 0, 0, 0],
            [7, 7, 0, 0, 0, 0],
        ] {
            assert_eq!(Attachment::decode(UserMessage(hostile)), None, "{hostile:?}");
        }
    }
}
