//! Samples whose writer protects the payloads.

use crate::id::Guid;
use crate::payload::Payload;
use crate::protection::payload::open;
use crate::wire::DataFrag;

use super::{Reader, Reception, SampleMeta};

impl Reader {
    /// Whether payloads are protected, on every route.
    #[must_use]
    pub fn protects_payloads(&self) -> bool {
        self.sealer.payloads().is_some()
    }

    /// Handles fragments of a sample whose writer protects payloads.
    #[cold]
    pub(super) fn open_fragment(&mut self, rx: &Reception<'_>, writer: Guid, meta: SampleMeta, frag: &DataFrag<'_>) {
        if !self.by_guid.contains_key(&writer) {
            self.counters.unmatched += 1;
            return;
        }
        let Some(plain) = self.open_payload(writer, frag.payload) else { return };
        match frag.with(frag.starting, &plain) {
            Some(frag) => self.accept_fragment(rx, writer, meta, &frag, true),
            None => self.counters.not_authentic += 1,
        }
        self.pool.recycle(plain);
    }

    /// Verifies and decrypts a payload. Returns `None` and counts the failure if the payload cannot be trusted.
    #[cold]
    pub(super) fn open_payload(&mut self, writer: Guid, bytes: &[u8]) -> Option<Payload> {
        self.typical_bytes = bytes.len();
        if bytes.is_empty() {
            return Some(Payload::default());
        }
        let opened = open(self.sealer.payloads()?, writer, bytes, &mut self.pool);
        if opened.is_err() {
            self.counters.not_authentic += 1;
        }
        opened.ok()
    }
}
