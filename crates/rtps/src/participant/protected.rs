//! Messages of a participant with security: decrypted first, then parsed, then checked for the protection that each
//! endpoint requires.

use alloc::sync::Arc;

use crate::id::{EntityId, GuidPrefix};
use crate::protection::open::{Piece, is_whole};
use crate::reader::{MessageBuffer, Reception};
use crate::receiver::{DropReason, Envelope, Input, Interpreter, Origin};
use crate::vendor::Quirks;
use crate::wire::{Header, Submessages};

use super::{Delivery, Demultiplexer, MessageRefusal, Participant};

impl Participant {
    /// Like [`Self::handle_datagram`], for a participant with security.
    #[cold]
    pub(super) fn handle_protected(
        &mut self,
        rx: &Reception<'_>,
        message: &[u8],
        deliver: impl FnMut(&Reception<'_>, Delivery, &Input<'_>),
    ) -> bool {
        let Self { config, opener, .. } = self;
        let Some(protection) = &config.protection else { return false };
        let header = match Header::parse(message) {
            Ok((header, _)) => header,
            Err(error) => {
                self.count_dropped(GuidPrefix::UNKNOWN, DropReason::Header(error));
                return false;
            }
        };
        let own = config.prefix;
        if !is_whole(message) && !protection.pre_shared().is_none() {
            return self.refuse_unprotected(rx.now, header.prefix);
        }
        let buffer = opener.open(&**protection, rx.now, own, &header, message);
        let keys = self.opener.keys();
        let mut pieces = core::mem::take(&mut self.opener.pieces);
        // Keys are copied, so that the buffer can be overwritten.
        let decrypted =
            Reception { buffer: buffer.as_ref().filter(|_| keys.is_empty()).map(MessageBuffer::Received), ..*rx };
        let mut demultiplexer = Demultiplexer::new(self, rx, deliver);
        let mut interpreter = Interpreter::new(&header, own);
        let mut refusal = None;
        for piece in pieces.drain(..) {
            match piece {
                Piece::Refused(error) => {
                    refusal = refusal.or(MessageRefusal::of(error));
                    interpreter.refuse(error, &mut demultiplexer);
                }
                Piece::Malformed => interpreter.stop(&mut demultiplexer),
                Piece::Readable { at, protection, sender } => {
                    let all = match &buffer {
                        Some(buffer) if at.is_decrypted => buffer.as_slice(),
                        _ => message,
                    };
                    demultiplexer.rx = if at.is_decrypted { &decrypted } else { rx };
                    let octets = all.get(at.range.clone()).unwrap_or_default();
                    let is_first = !at.is_decrypted && at.range.start == Header::LEN;
                    let submessages = if is_first { Submessages::new(octets) } else { Submessages::behind(octets) };
                    if !interpreter.read_protected(
                        message,
                        submessages,
                        Origin { protection, sender },
                        &mut demultiplexer,
                    ) {
                        break;
                    }
                }
            }
        }
        let concerns_discovery = demultiplexer.concerns_discovery;
        self.opener.pieces = pieces;
        if let Some(mut buffer) = buffer {
            if !keys.is_empty()
                && let Some(protection) = &self.config.protection
                && let Some(keys) = Arc::get_mut(&mut buffer).and_then(|buffer| buffer.get_mut(keys))
            {
                (protection.wiper())(keys);
            }
            self.opener.take_back(buffer);
        }
        let is_reported = refusal.is_some_and(|refusal| self.report_refused_message(rx.now, header.prefix, refusal));
        if concerns_discovery {
            self.process_discovery(rx.now, rx.wall);
        }
        concerns_discovery || is_reported
    }

    /// Whether an authenticated participant sends input for this endpoint without protection, as its signed vendor
    /// does. Such input may be forged: it can hide or invent endpoints, but has no keys for them.
    pub(super) fn is_known_to_be_in_clear(&self, endpoint: EntityId, from: GuidPrefix) -> bool {
        let is_plain_discovery = matches!(
            endpoint,
            EntityId::SEDP_PUBLICATIONS_WRITER
                | EntityId::SEDP_PUBLICATIONS_READER
                | EntityId::SEDP_SUBSCRIPTIONS_WRITER
                | EntityId::SEDP_SUBSCRIPTIONS_READER
                | EntityId::PARTICIPANT_MESSAGE_WRITER
                | EntityId::PARTICIPANT_MESSAGE_READER
        );
        let vendor_of = |from| self.remotes.get(&from)?.security.as_deref()?.signed_vendor;
        is_plain_discovery
            && self.is_authenticated(from)
            && vendor_of(from).is_some_and(|vendor| Quirks::of(vendor).plain_discovery_in_clear)
    }

    /// Whether an endpoint accepts input with this protection.
    #[inline]
    pub(super) fn permits(&self, endpoint: EntityId, envelope: &Envelope) -> bool {
        let Some(protection) = &self.config.protection else { return true };
        protection.levels(endpoint).permit(envelope.protection)
            || self.is_known_to_be_in_clear(endpoint, envelope.from.prefix)
    }
}
