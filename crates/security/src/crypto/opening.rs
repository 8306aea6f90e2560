//! Keys of remote senders.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use peregrine_rtps::id::Guid;
use peregrine_rtps::protection::{OpenError, Scope, Text};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader};

use super::algorithm::KeyLength;
use super::key_material::{KeyMaterial, ReceiverKey};
use super::session::{Iv, Master, SessionKey};
use crate::limits::{BUILTIN_IDLE_INTERVALS, SESSIONS_PER_KEY, USER_IDLE_INTERVALS};

/// The uses of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Uses {
    pub(super) message: bool,
    pub(super) submessage: bool,
    pub(super) payload: bool,
}

/// The key of a remote sender.
#[derive(Debug)]
pub(super) struct OpeningKey {
    owner: Guid,
    material: KeyMaterial,
    uses: Uses,
    encrypts: bool,
    key_length: KeyLength,
    /// The keys that the sender shares with this participant or with its endpoints. If there are any, each message and
    /// submessage must be proved by one of them.
    receivers: Vec<ReceiverKey>,
    /// The first session that the sender has used, found without a look at what may be replaced.
    first: OnceLock<OpeningSession>,
    /// Later sessions, the newest first, if there are any.
    later: ArcSwapOption<Vec<Arc<OpeningSession>>>,
}

#[derive(Debug)]
struct OpeningSession {
    id: [u8; 4],
    key: SessionKey,
    /// In the order of the key's receivers.
    receivers: Vec<SessionKey>,
    /// Calls of [`OpeningKey::without_idle_sessions`] since it last opened something.
    idle_intervals: AtomicU8,
}

impl Uses {
    const fn include(self, scope: Scope) -> bool {
        match scope {
            Scope::Message => self.message,
            Scope::Submessage => self.submessage,
            Scope::Payload => self.payload,
        }
    }
}

impl OpeningKey {
    /// `None` for key material without an algorithm.
    pub(super) fn new(owner: Guid, uses: Uses, material: &KeyMaterial) -> Option<Self> {
        let algorithm = material.algorithm?;
        let mut key = Self {
            owner,
            material: KeyMaterial { receiver: None, ..material.clone() },
            uses,
            encrypts: algorithm.encrypts,
            key_length: algorithm.key_length,
            receivers: Vec::new(),
            first: OnceLock::new(),
            later: ArcSwapOption::empty(),
        };
        material.receiver.iter().for_each(|receiver| key.add_receiver(receiver));
        Some(key)
    }

    /// The same key, shared with one receiver more. `None` if the material is of another key.
    pub(super) fn with_receiver(&self, owner: Guid, uses: Uses, material: &KeyMaterial) -> Option<Self> {
        let same = KeyMaterial { receiver: None, ..material.clone() } == self.material;
        let mut key = Self::new(owner, uses, &self.material)?;
        if !same || owner != self.owner || uses != self.uses {
            return None;
        }
        self.receivers.iter().for_each(|receiver| key.add_receiver(receiver));
        material.receiver.iter().for_each(|receiver| key.add_receiver(receiver));
        Some(key)
    }

    /// The same key, no longer shared with this receiver.
    pub(super) fn without_receiver(&self, id: [u8; 4]) -> Option<Self> {
        let mut key = Self::new(self.owner, self.uses, &self.material)?;
        self.receivers.iter().filter(|receiver| receiver.id != id).for_each(|receiver| key.add_receiver(receiver));
        Some(key)
    }

    /// The same key without expanded session keys, if all of them are idle for some calls: see
    /// [`IDLE_SESSIONS_INTERVAL`](crate::limits::IDLE_SESSIONS_INTERVAL). The next text expands a session key again.
    pub(super) fn without_idle_sessions(&self) -> Option<Self> {
        let most = if self.owner.entity.is_builtin() { BUILTIN_IDLE_INTERVALS } else { USER_IDLE_INTERVALS };
        let later = self.later.load();
        let sessions = self.first.get().into_iter().chain(later.iter().flat_map(|later| later.iter().map(|s| &**s)));
        let (mut any, mut in_use) = (false, false);
        for session in sessions {
            let idle = session.idle_intervals.load(Ordering::Relaxed);
            session.idle_intervals.store(idle.saturating_add(1), Ordering::Relaxed);
            any = true;
            in_use |= idle < most;
        }
        if !any || in_use {
            return None;
        }
        let mut key = Self::new(self.owner, self.uses, &self.material)?;
        key.receivers.clone_from(&self.receivers);
        Some(key)
    }

    fn add_receiver(&mut self, receiver: &ReceiverKey) {
        self.receivers.retain(|known| known.id != receiver.id);
        self.receivers.push(receiver.clone());
    }

    /// Verifies and decrypts in place.
    ///
    /// # Errors
    /// Why the text cannot be trusted.
    pub(super) fn open(
        &self,
        scope: Scope,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        self.open_with_additional(scope, header, footer, &[], text)
    }

    /// The same, for bytes to which other bytes belong that are not encrypted.
    ///
    /// # Errors
    /// Why the text cannot be trusted.
    pub(super) fn open_with_additional(
        &self,
        scope: Scope,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        additional: &[u8],
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        if header.kind != self.material.kind() || !self.uses.include(scope) {
            return Err(OpenError::UnknownKey);
        }
        if text.is_encrypted() != self.encrypts {
            return Err(OpenError::NotAuthentic);
        }
        let parts = (additional, text);
        let first = self.first.get();
        if let Some(first) = first.filter(|first| first.id == header.session_id) {
            self.open_with(first, scope, header, footer, parts)?;
            return Ok(self.owner);
        }
        let later = self.later.load();
        let mut known = later.iter().flat_map(|later| later.iter());
        if let Some(session) = known.find(|session| session.id == header.session_id) {
            self.open_with(session, scope, header, footer, parts)?;
            return Ok(self.owner);
        }
        let session = self.session(header.session_id);
        self.open_with(&session, scope, header, footer, parts)?;
        // Only a session that the sender has used replaces an older one.
        let Err(session) = self.first.set(session) else { return Ok(self.owner) };
        let session = Arc::new(session);
        self.later.rcu(|later| {
            let older = later.iter().flat_map(|later| later.iter()).filter(|older| older.id != session.id);
            let sessions = core::iter::once(&session).chain(older.take(SESSIONS_PER_KEY - 2));
            Some(Arc::new(sessions.cloned().collect::<Vec<_>>()))
        });
        Ok(self.owner)
    }

    fn session(&self, id: [u8; 4]) -> OpeningSession {
        let KeyMaterial { key, salt, .. } = &self.material;
        let of_receiver =
            |receiver: &ReceiverKey| Master::of_receiver(&receiver.key, salt, self.key_length).session(id);
        let receivers = self.receivers.iter().map(of_receiver).collect();
        let key = Master::of_sender(key, salt, self.key_length).session(id);
        OpeningSession { id, key, receivers, idle_intervals: AtomicU8::new(0) }
    }

    fn open_with(
        &self,
        session: &OpeningSession,
        scope: Scope,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        (additional, text): (&[u8], Text<'_>),
    ) -> Result<(), OpenError> {
        let iv = Iv { session_id: header.session_id, suffix: header.suffix };
        // The MACs for receivers first: they are short.
        if scope == Scope::Payload {
            // Payloads are the same for all readers, so a MAC for one of them is a sign of a change.
            if footer.receivers().len() > 0 {
                return Err(OpenError::NotAuthentic);
            }
        } else if !self.receivers.is_empty() {
            let mut proofs = footer.receivers().filter_map(|mac| {
                let keys = self.receivers.iter().zip(&session.receivers);
                let (_, key) = keys.into_iter().find(|(receiver, _)| receiver.id == mac.key_id)?;
                Some(key.open(iv, &mac.mac, &[], Text::Signed(&footer.common_mac)))
            });
            // One MAC proves the origin; a wrong MAC for another endpoint of this participant proves a change.
            let is_proved = proofs.next() == Some(true) && proofs.all(|is_right| is_right);
            if !is_proved {
                return Err(OpenError::NotAuthentic);
            }
        }
        if !session.key.open(iv, &footer.common_mac, additional, text) {
            return Err(OpenError::NotAuthentic);
        }
        // Other threads read this: it is written once in each interval.
        if session.idle_intervals.load(Ordering::Relaxed) > 0 {
            session.idle_intervals.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn session_count(&self) -> usize {
        usize::from(self.first.get().is_some()) + self.later.load().as_ref().map_or(0, |later| later.len())
    }
}
