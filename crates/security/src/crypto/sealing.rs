//! Keys of local senders.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use peregrine_rtps::protection::{Seal, Text};
use peregrine_rtps::wire::{CryptoHeader, ReceiverMac};

use super::algorithm::KeyLength;
use super::key_material::{KeyMaterial, ReceiverKey};
use super::session::{Iv, Master, SessionKey};

/// The key with which a local sender seals, and its current session.
#[derive(Debug)]
pub(super) struct SealingKey {
    kind: [u8; 4],
    key_id: [u8; 4],
    encrypts: bool,
    master: Master,
    blocks_max: u64,
    /// The number of the first session.
    first_session: u32,
    /// Bits of the suffix that have a fixed value: mask and value.
    fixed: (u64, u64),
    session: ArcSwap<SealingSession>,
}

#[derive(Debug)]
struct SealingSession {
    id: u32,
    key: SessionKey,
    /// The suffix of the next nonce.
    next: AtomicU64,
    blocks: AtomicU64,
}

/// The key of a local sender for one receiver.
#[derive(Debug)]
pub(super) struct ReceiverSealingKey {
    id: [u8; 4],
    /// The sender's key on whose salt the session keys depend.
    sender_key_id: [u8; 4],
    master: Master,
    session: ArcSwapOption<([u8; 4], SessionKey)>,
}

/// Where a sealing key begins.
pub(super) struct Start {
    pub(super) session_id: u32,
    pub(super) suffix: u64,
    /// Bits of each suffix that have a fixed value: mask and value.
    pub(super) fixed: (u64, u64),
}

impl SealingKey {
    /// `None` for key material without an algorithm.
    pub(super) fn new(material: &KeyMaterial, blocks_max: u64, start: &Start) -> Option<Self> {
        let algorithm = material.algorithm?;
        let master = Master::of_sender(&material.key, &material.salt, algorithm.key_length);
        let session = SealingSession::new(&master, start.session_id, start.suffix);
        Some(Self {
            kind: material.kind(),
            key_id: material.key_id,
            encrypts: algorithm.encrypts,
            master,
            blocks_max,
            first_session: start.session_id,
            fixed: start.fixed,
            session: ArcSwap::from_pointee(session),
        })
    }

    /// The number of the key, which no other key of this participant has.
    pub(super) const fn id(&self) -> [u8; 4] {
        self.key_id
    }

    /// `None` if the key is for another transformation.
    pub(super) fn seal(&self, text: Text<'_>) -> Option<Seal> {
        let octets = match &text {
            Text::Signed(octets) => octets.len(),
            Text::Encrypted(octets) => octets.len(),
        };
        if matches!(text, Text::Encrypted(_)) != self.encrypts {
            return None;
        }
        // One block more than the text has, for its length.
        let blocks = u64::try_from(octets.div_ceil(16)).unwrap_or(u64::MAX).saturating_add(1);
        // Each round either seals or begins a session, in which the first text is always sealed.
        loop {
            let session = self.session.load();
            let before = session.blocks.fetch_add(blocks, Ordering::Relaxed);
            if before == 0 || before.saturating_add(blocks) <= self.blocks_max {
                return session.seal(self, text);
            }
            let next = session.next.load(Ordering::Relaxed);
            let successor = Arc::new(SealingSession::new(&self.master, session.id.wrapping_add(1), next));
            // If another thread was faster, its session serves as well.
            self.session.compare_and_swap(&session, successor);
        }
    }

    /// The AES blocks that were sealed with all sessions of this key. A session that ended counts as full.
    pub(super) fn blocks(&self) -> u64 {
        let session = self.session.load();
        let ended = u64::from(session.id.wrapping_sub(self.first_session)).saturating_mul(self.blocks_max);
        ended.saturating_add(session.blocks.load(Ordering::Relaxed).min(self.blocks_max))
    }

    /// Begins a new session with the next text.
    pub(super) fn renew_session(&self) {
        // A session whose limit is reached is replaced before its next use.
        self.session.load().blocks.fetch_max(self.blocks_max.max(1), Ordering::Relaxed);
    }
}

impl SealingSession {
    fn new(master: &Master, id: u32, next: u64) -> Self {
        let key = master.session(id.to_be_bytes());
        Self { id, key, next: AtomicU64::new(next), blocks: AtomicU64::new(0) }
    }

    fn seal(&self, key: &SealingKey, text: Text<'_>) -> Option<Seal> {
        let (mask, value) = key.fixed;
        let suffix = self.next.fetch_add(1, Ordering::Relaxed) & !mask | value;
        let iv = Iv { session_id: self.id.to_be_bytes(), suffix: suffix.to_be_bytes() };
        let common_mac = self.key.seal(iv, text)?;
        let Iv { session_id, suffix } = iv;
        Some(Seal { header: CryptoHeader { kind: key.kind, key_id: key.key_id, session_id, suffix }, common_mac })
    }
}

impl ReceiverSealingKey {
    pub(super) fn new(receiver: &ReceiverKey, sender: &KeyMaterial, length: KeyLength) -> Self {
        Self {
            id: receiver.id,
            sender_key_id: sender.key_id,
            master: Master::of_receiver(&receiver.key, &sender.salt, length),
            session: ArcSwapOption::empty(),
        }
    }

    /// The MAC for this receiver. `None` if the seal was made with another key of the sender.
    pub(super) fn mac(&self, seal: &Seal) -> Option<ReceiverMac> {
        let CryptoHeader { key_id, session_id, suffix, .. } = seal.header;
        if key_id != self.sender_key_id {
            return None;
        }
        let iv = Iv { session_id, suffix };
        let current = self.session.load();
        let mac = match current.as_deref() {
            Some((id, key)) if *id == session_id => key.seal(iv, Text::Signed(&seal.common_mac)),
            _ => {
                let key = self.master.session(session_id);
                let mac = key.seal(iv, Text::Signed(&seal.common_mac));
                self.session.store(Some(Arc::new((session_id, key))));
                mac
            }
        };
        Some(ReceiverMac { key_id: self.id, mac: mac? })
    }
}
