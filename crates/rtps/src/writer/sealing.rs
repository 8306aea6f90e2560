//! The payloads of a writer are protected once, when they are first sent.

use crate::history::Change;
use crate::protection::payload::SealedPayload;
use crate::seq::SequenceNumber;

use super::Writer;

impl Writer {
    /// Whether payloads are protected, on every route.
    #[must_use]
    pub fn protects_payloads(&self) -> bool {
        self.packer.payloads().is_some()
    }

    /// Protects the payload of the first held change from `number` on, if payloads are protected and this one is not.
    /// The packer skips samples that could not be protected.
    #[inline]
    pub(super) fn seal_from(&mut self, number: SequenceNumber) {
        if let Some(sealer) = self.packer.payloads() {
            _ = self.history.seal_from(number, sealer, &mut self.pool);
        }
    }

    /// Like [`Self::seal_from`] for a change that is sent once and not held.
    #[inline]
    pub(super) fn seal_once(&mut self, change: &Change, fragment_size: u32) -> Option<SealedPayload> {
        let sealer = self.packer.payloads().filter(|_| !change.payload.is_empty())?;
        sealer.seal(&change.payload, fragment_size, &mut self.pool).ok()
    }
}
