//! Keys of local senders.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use peregrine_rtps::id::Guid;
use peregrine_rtps::protection::{Seal, Text};
use peregrine_rtps::wire::{CryptoHeader, ReceiverMac};

use super::algorithm::KeyLength;
use super::key_material::{KeyMaterial, ReceiverKey};
use super::session::{Iv, Master, SessionKey};
use super::table::Table;

/// Parts of a table for the receivers of one sender.
const FEW: usize = 1;

/// The key with which a local sender seals, and its current session.
#[derive(Debug)]
pub(super) struct SealingKey {
    kind: [u8; 4],
    key_id: [u8; 4],
    encrypts: bool,
    master: Master,
    blocks_max: u64,
    /// Bits of the suffix that have a fixed value: mask and value.
    fixed: (u64, u64),
    /// Found without a look at what may be replaced: nearly all keys end in their first session.
    first: SealingSession,
    /// The current session, if that is a later one.
    later: ArcSwapOption<SealingSession>,
    receivers: Table<Guid, ReceiverSealingKey>,
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
    /// The first session that was used, found without a look at what may be replaced.
    first: OnceLock<([u8; 4], SessionKey)>,
    /// The latest session, if that is a later one.
    later: ArcSwapOption<([u8; 4], SessionKey)>,
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
        let first = SealingSession::new(&master, start.session_id, start.suffix);
        Some(Self {
            kind: material.kind(),
            key_id: material.key_id,
            encrypts: algorithm.encrypts,
            master,
            blocks_max,
            fixed: start.fixed,
            first,
            later: ArcSwapOption::empty(),
            receivers: Table::with_parts(FEW),
        })
    }

    /// The number of the key, which no other key of this participant has.
    pub(super) const fn id(&self) -> [u8; 4] {
        self.key_id
    }

    /// `None` if the key is for another transformation.
    pub(super) fn seal(&self, text: Text<'_>) -> Option<Seal> {
        let octets = text.len();
        if text.is_encrypted() != self.encrypts {
            return None;
        }
        // One block more than the text has, for its length.
        let blocks = u64::try_from(octets.div_ceil(16)).unwrap_or(u64::MAX).saturating_add(1);
        // While the first session lasts, no other one has begun.
        if self.first.takes(blocks, self.blocks_max) {
            return self.first.seal(self, text);
        }
        // Each round either seals or begins a session, in which the first text is always sealed.
        loop {
            let later = self.later.load();
            let session = later.as_deref().unwrap_or(&self.first);
            if later.is_some() && session.takes(blocks, self.blocks_max) {
                return session.seal(self, text);
            }
            let next = session.next.load(Ordering::Relaxed);
            let successor = Arc::new(SealingSession::new(&self.master, session.id.wrapping_add(1), next));
            // If another thread was faster, its session serves as well.
            self.later.compare_and_swap(&later, Some(successor));
        }
    }

    pub(super) fn set_receiver(&self, receiver: Guid, key: ReceiverSealingKey) {
        self.receivers.insert(receiver, Arc::new(key));
    }

    pub(super) fn remove_receiver(&self, receiver: Guid) {
        self.receivers.remove(&receiver);
    }

    /// The MAC of a seal for one receiver. `None` if the seal was made with another key.
    pub(super) fn receiver_mac(&self, seal: &Seal, receiver: Guid) -> Option<ReceiverMac> {
        self.receivers.with(&receiver, |key| key.mac(seal))?
    }

    /// The AES blocks that were sealed with all sessions of this key. A session that ended counts as full.
    pub(super) fn blocks(&self) -> u64 {
        let later = self.later.load();
        let session = later.as_deref().unwrap_or(&self.first);
        let ended = u64::from(session.id.wrapping_sub(self.first.id)).saturating_mul(self.blocks_max);
        ended.saturating_add(session.blocks.load(Ordering::Relaxed).min(self.blocks_max))
    }

    /// Begins a new session with the next text.
    pub(super) fn renew_session(&self) {
        // A session whose limit is reached is replaced before its next use.
        let later = self.later.load();
        later.as_deref().unwrap_or(&self.first).blocks.fetch_max(self.blocks_max.max(1), Ordering::Relaxed);
    }
}

impl SealingSession {
    fn new(master: &Master, id: u32, next: u64) -> Self {
        let key = master.session(id.to_be_bytes());
        Self { id, key, next: AtomicU64::new(next), blocks: AtomicU64::new(0) }
    }

    /// Whether so many blocks more may be sealed in this session: the first text is always sealed.
    fn takes(&self, blocks: u64, blocks_max: u64) -> bool {
        let before = self.blocks.fetch_add(blocks, Ordering::Relaxed);
        before == 0 || before.saturating_add(blocks) <= blocks_max
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
            first: OnceLock::new(),
            later: ArcSwapOption::empty(),
        }
    }

    /// The MAC for this receiver. `None` if the seal was made with another key of the sender.
    pub(super) fn mac(&self, seal: &Seal) -> Option<ReceiverMac> {
        let CryptoHeader { key_id, session_id, suffix, .. } = seal.header;
        if key_id != self.sender_key_id {
            return None;
        }
        let iv = Iv { session_id, suffix };
        let mac = |(_, key): &([u8; 4], SessionKey)| key.seal(iv, Text::Signed(&seal.common_mac));
        let first = self.first.get_or_init(|| (session_id, self.master.session(session_id)));
        let mac = if first.0 == session_id {
            mac(first)
        } else {
            let later = self.later.load();
            match later.as_deref().filter(|later| later.0 == session_id) {
                Some(later) => mac(later),
                None => {
                    let later = Arc::new((session_id, self.master.session(session_id)));
                    let mac = mac(&later);
                    self.later.store(Some(later));
                    mac
                }
            }
        };
        Some(ReceiverMac { key_id: self.id, mac: mac? })
    }
}
