//! ParticipantGenericMessage: the type of ParticipantStatelessMessage and ParticipantVolatileMessageSecure.

use core::fmt;

use peregrine_rtps::id::Guid;
use peregrine_rtps::wire::Endianness;

use super::holder::DataHolder;
use crate::cdr::{MalformedCdr, Reader, Writer};
use crate::limits::{MESSAGE_BYTES, PROPERTY_NAME_BYTES, TOKENS_PER_MESSAGE};
use crate::secret::Secret;

/// Before the fields: plain CDR, and no options.
const ENCAPSULATION_BE: [u8; 4] = [0, 0, 0, 0];
const ENCAPSULATION_LE: [u8; 4] = [0, 1, 0, 0];
/// A token has the length of its class, and of two sequences.
const TOKEN_BYTES_MIN: usize = 12;
/// Less than a word: what pads a payload.
const PADDING: usize = 4;

/// A message between participants (DDS Security 1.2 §7.3.21), as the payload of a sample: with its encapsulation.
///
/// ```text
/// 0     encapsulation                    4 bytes
/// 4     identity                        24 bytes: GUID of the writer, number of the message
/// 28    identity of the message that this one answers; zeros if none
/// 52    GUID of the participant for which the message is
/// 68    GUID of the endpoint for which it is; zeros if none
/// 84    GUID of the endpoint that it is about; zeros if none
/// 100   class of the message             string
///       tokens                           sequence
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GenericMessage {
    /// The fields of fixed length.
    pub head: MessageHead,
    /// The class of the message, one of [`names`](super::names).
    pub class_id: String,
    /// The tokens.
    pub data: Vec<DataHolder>,
}

/// The fields of a message that have a fixed length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageHead {
    /// Identifies the message.
    pub identity: MessageIdentity,
    /// The message that this one answers; zeros if none.
    pub related: MessageIdentity,
    /// The participant for which the message is.
    pub destination_participant: Guid,
    /// The endpoint for which the message is; zeros if none.
    pub destination_endpoint: Guid,
    /// The endpoint that the message is about; zeros if none.
    pub source_endpoint: Guid,
}

/// Identifies a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MessageIdentity {
    /// The writer. Some participants state another writer of theirs than the one that sends the message.
    pub source: Guid,
    /// Counts the messages of the writer, from 1.
    pub sequence_number: i64,
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MalformedMessage {
    /// The message has more bytes than [`MESSAGE_BYTES`].
    TooLong,
    /// The encapsulation is not that of plain CDR.
    Encapsulation,
    /// The fields of fixed length, or the class, are incomplete.
    Head,
    /// The tokens are malformed, there are too many, or bytes follow them.
    Tokens,
}

impl GenericMessage {
    /// Parses only the head and the class: what is necessary to decide whether a message matters at all.
    ///
    /// # Errors
    /// Why the bytes are no message.
    pub fn parse_head(octets: &[u8]) -> Result<(MessageHead, &str), MalformedMessage> {
        Self::read_head(octets).map(|(head, class_id, _)| (head, class_id))
    }

    /// Parses a message.
    ///
    /// # Errors
    /// Why the bytes are no message.
    pub fn parse(octets: &[u8]) -> Result<Self, MalformedMessage> {
        let (head, class_id, mut reader) = Self::read_head(octets)?;
        let malformed = |MalformedCdr| MalformedMessage::Tokens;
        let count = reader.count(TOKENS_PER_MESSAGE, TOKEN_BYTES_MIN).map_err(malformed)?;
        let mut data = Vec::with_capacity(count);
        for _ in 0..count {
            data.push(DataHolder::read(&mut reader).map_err(malformed)?);
        }
        if reader.rest().len() >= PADDING {
            return Err(MalformedMessage::Tokens);
        }
        Ok(Self { head, class_id: class_id.to_owned(), data })
    }

    fn read_head(octets: &[u8]) -> Result<(MessageHead, &str, Reader<'_>), MalformedMessage> {
        if octets.len() > MESSAGE_BYTES {
            return Err(MalformedMessage::TooLong);
        }
        let (encapsulation, fields) = octets.split_first_chunk::<4>().ok_or(MalformedMessage::Head)?;
        // The last two bytes are options: the number of bytes of padding, or nothing.
        let endianness = match encapsulation {
            [0, 0, ..] => Endianness::Big,
            [0, 1, ..] => Endianness::Little,
            _ => return Err(MalformedMessage::Encapsulation),
        };
        let mut reader = Reader::new(fields, endianness);
        let (head, class_id) = MessageHead::read(&mut reader).map_err(|MalformedCdr| MalformedMessage::Head)?;
        Ok((head, class_id, reader))
    }

    /// The bytes of the message, little endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_in(Endianness::Little)
    }

    /// The bytes of the message.
    #[must_use]
    pub fn to_bytes_in(&self, endianness: Endianness) -> Vec<u8> {
        let values = self.data.iter().flat_map(|token| &token.binary_properties);
        // With room for all, the vector does not move, and leaves no copy of keys behind.
        let room: usize = values.map(|property| property.value.len().saturating_add(64)).sum();
        let mut out = Vec::with_capacity(room.saturating_add(1024));
        out.extend_from_slice(match endianness {
            Endianness::Big => &ENCAPSULATION_BE,
            Endianness::Little => &ENCAPSULATION_LE,
        });
        let mut writer = Writer::new(&mut out, endianness);
        self.head.write(&mut writer);
        writer.string(&self.class_id).len(self.data.len());
        for token in &self.data {
            writer.align(4);
            token.write(&mut writer);
        }
        out
    }

    /// The bytes of a message that contains keys, little endian.
    #[must_use]
    pub fn to_secret(&self) -> Secret {
        Secret::from(self.to_bytes())
    }
}

impl MessageHead {
    fn read<'a>(reader: &mut Reader<'a>) -> Result<(Self, &'a str), MalformedCdr> {
        let guid = |reader: &mut Reader<'a>| reader.octets().map(Guid::from_bytes);
        let head = Self {
            identity: MessageIdentity { source: guid(reader)?, sequence_number: reader.i64()? },
            related: MessageIdentity { source: guid(reader)?, sequence_number: reader.i64()? },
            destination_participant: guid(reader)?,
            destination_endpoint: guid(reader)?,
            source_endpoint: guid(reader)?,
        };
        Ok((head, reader.string(PROPERTY_NAME_BYTES)?))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        for MessageIdentity { source, sequence_number } in [self.identity, self.related] {
            writer.octets(&source.to_bytes()).i64(sequence_number);
        }
        for guid in [self.destination_participant, self.destination_endpoint, self.source_endpoint] {
            writer.octets(&guid.to_bytes());
        }
    }
}

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the message has more than {MESSAGE_BYTES} bytes"),
            Self::Encapsulation => f.write_str("the encapsulation of the message is not that of plain CDR"),
            Self::Head => f.write_str("the head of the message is incomplete"),
            Self::Tokens => f.write_str("the tokens of the message are malformed"),
        }
    }
}

impl core::error::Error for MalformedMessage {}
