//! The wire format: the message header, the submessages and parameter lists (RTPS 2.5 §8.3, §9.4).
//!
//! One file per submessage, each with the same parts: the bit diagram, the value, `parse`, `emit`, `Display`, and tests
//! with literal bytes.
//!
//! - **Reading.** [`Header::parse`] splits a message into its header and the rest; [`Submessages`] iterates over the
//!   rest. Each submessage is checked completely when it is parsed. Afterwards no accessor can fail, and nothing is
//!   copied: payloads and parameter lists borrow from the message.
//! - **Writing.** `emit` appends to a vector that holds a message whose length is a multiple of 4 bytes. Payloads of
//!   DATA and DATA_FRAG are not copied: [`DataHead`] and [`DataFragHead`] write the bytes before them.
//!
//! This is the only module of the crate that knows offsets.

mod acknack;
mod checksum;
mod cursor;
mod data;
mod data_frag;
mod error;
mod gap;
mod header;
mod header_extension;
mod heartbeat;
mod heartbeat_frag;
mod info_destination;
mod info_reply;
mod info_source;
mod info_timestamp;
mod inline_qos;
mod integrity;
mod nack_frag;
pub(crate) mod parameter_id;
mod parameter_list;
mod secure;
mod submessage;
mod submessage_id;
mod value;

#[cfg(test)]
pub(crate) mod vectors;

pub use acknack::AckNack;
pub use checksum::{Checksum, ChecksumKind};
pub use cursor::Endianness;
pub use data::{Data, DataHead, Payload, PayloadKind};
pub use data_frag::{DataFrag, DataFragHead};
pub use error::{Fault, ParameterListError, WireError};
pub use gap::{Gap, GapGroup};
pub use header::{Header, HeaderError};
pub use header_extension::HeaderExtension;
pub use heartbeat::{GroupDigest, GroupInfo, Heartbeat};
pub use heartbeat_frag::HeartbeatFrag;
pub use info_destination::InfoDestination;
pub use info_reply::{InfoReply, InfoReplyIp4, LocatorList};
pub use info_source::InfoSource;
pub use info_timestamp::InfoTimestamp;
pub use inline_qos::{InlineQos, InlineQosError, SampleIdentity, StatusInfo};
pub use integrity::MessageIntegrityError;
pub use nack_frag::NackFrag;
pub use parameter_id::ParameterId;
pub use parameter_list::{ParameterList, ParameterListWriter, Parameters};
pub use secure::{CryptoContent, CryptoFooter, CryptoHeader, ReceiverMac};
pub(crate) use submessage::RawSubmessage;
pub use submessage::{Submessage, Submessages};
pub use submessage_id::SubmessageId;
pub use value::{ValueError, ValueReader, ValueWriter};
