//! Payloads that their writer protects.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::id::Guid;
use crate::payload::Payload;
use crate::protection::payload::open;
use crate::wire::DataFrag;

use super::{Reader, Reception, SampleMeta};

impl Reader {
    /// Keeps a payload as it was before its writer protected it, if this reader's topic demands that. `None`, and counted, if
    /// it cannot be trusted.
    #[inline]
    pub(super) fn hold_plain(&mut self, writer: Guid, bytes: &[u8], buffer: Option<&Arc<Vec<u8>>>) -> Option<Payload> {
        if self.sealer.payloads().is_none() { Some(self.hold(bytes, buffer)) } else { self.open_payload(writer, bytes) }
    }

    /// Fragments that their writer protects.
    #[cold]
    pub(super) fn handle_protected_frag(
        &mut self,
        rx: &Reception<'_>,
        writer: Guid,
        meta: SampleMeta,
        frag: &DataFrag<'_>,
    ) {
        if !self.by_guid.contains_key(&writer) {
            self.counters.unmatched += 1;
            return;
        }
        let Some(plain) = self.open_payload(writer, frag.payload_field) else { return };
        match frag.with(frag.starting, &plain) {
            Some(frag) => self.handle_plain_frag(rx, writer, meta, &frag),
            None => self.counters.not_authentic += 1,
        }
        self.pool.recycle(plain);
    }

    #[cold]
    fn open_payload(&mut self, writer: Guid, bytes: &[u8]) -> Option<Payload> {
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
