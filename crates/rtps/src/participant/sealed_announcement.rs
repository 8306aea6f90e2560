//! Announcements of this participant for one authenticated peer at one address, outside the flow of the secure built-in
//! writer: they need no request of the peer, which may go to a former address.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Participant;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::locator::Locator;
use crate::protection::seal::Sealer;
use crate::seq::{SequenceNumber, SequenceNumberSet};
use crate::time::Timestamp;
use crate::transmit::{Destination, Peers, TransmitBatch};
use crate::vendor::{ProtocolVersion, VendorId};
use crate::wire::{DataHead, Endianness, Gap, Header, InfoDestination, InfoTimestamp, PayloadKind};

const ENDIANNESS: Endianness = Endianness::Little;

/// The content of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// The last secure announcement.
    Announcement,
    /// That this participant has left. The caller sees to it that the number after the last announcement is used.
    Goodbye,
}

impl Participant {
    /// The message, protected as the secure built-in writer protects its own. A GAP before it passes over what the peer
    /// has not received. `None` without the keys, or without an announcement.
    pub(super) fn sealed_announcement(
        &self,
        wall: Timestamp,
        peer: GuidPrefix,
        to: &Arc<[Locator]>,
        said: Said,
    ) -> Option<Vec<u8>> {
        let writer = &self.builtin.secure.as_ref()?.participants.writer;
        let (number, writer) = match said {
            Said::Announcement => (writer.last(), writer.guid().entity),
            Said::Goodbye => (writer.last().next(), writer.guid().entity),
        };
        if number < SequenceNumber::FIRST {
            return None;
        }
        let reader = Guid::new(peer, EntityId::SPDP_SECURE_READER);
        let mut sealer = Sealer::new(self.config.protection.as_ref(), writer);
        let mut batch = TransmitBatch::default();
        let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: self.config.prefix };
        let destination = Arc::new(Destination { locators: Arc::clone(to), peers: Peers::One(reader) });
        sealer.begin_message(&header, &destination, &mut batch);
        InfoDestination { prefix: peer }.emit(ENDIANNESS, batch.inline());
        InfoTimestamp { timestamp: Some(wall) }.emit(ENDIANNESS, batch.inline());
        let reader = reader.entity;
        if number > SequenceNumber::FIRST {
            let (start, list) = (SequenceNumber::FIRST, SequenceNumberSet::empty(number));
            let gap = Gap { reader, writer, start, list, group: None, filtered_count: None };
            sealer.put(&mut batch, |out| gap.emit(ENDIANNESS, out));
        }
        let (kind, inline_qos, payload) = self.content(said);
        sealer.put(&mut batch, |out| {
            let (sequence_number, inline_qos) = (number, &inline_qos[..]);
            let head = DataHead { reader, writer, sequence_number, inline_qos, payload: kind };
            head.emit(ENDIANNESS, payload.len(), out);
            out.extend_from_slice(&payload);
            out.resize(out.len().next_multiple_of(4), 0);
        });
        sealer.finish_message(&mut batch);
        if sealer.failures() > 0 {
            return None;
        }
        let mut message = Vec::new();
        batch.messages().next()?.copy_to(&mut message);
        Some(message)
    }

    /// Kind, inline QoS and payload of the DATA.
    fn content(&self, said: Said) -> (PayloadKind, Vec<u8>, Vec<u8>) {
        if said == Said::Announcement {
            return (PayloadKind::Data, Vec::new(), self.said_securely.clone());
        }
        let ((qos, payload), mut inline_qos) = (self.disposal(), Vec::new());
        qos.emit(ENDIANNESS, &mut inline_qos);
        (PayloadKind::Key, inline_qos, payload)
    }
}
