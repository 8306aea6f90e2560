//! Keys of remote senders.

use peregrine_rtps::id::Guid;
use peregrine_rtps::protection::{OpenError, Scope, Text};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader};

use super::algorithm::KeyLength;
use super::key_material::{KeyMaterial, ReceiverKey};
use super::opening_sessions::{OpeningSession, OpeningSessions};
use super::session::{Iv, Master};
use crate::limits::{BUILTIN_IDLE_INTERVALS, USER_IDLE_INTERVALS};

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
    sessions: OpeningSessions,
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
            sessions: OpeningSessions::default(),
        };
        material.receiver.iter().for_each(|receiver| key.add_receiver(receiver));
        Some(key)
    }

    /// The same key, shared with one receiver more. `None` if the material is of another key.
    pub(super) fn with_receiver(&self, owner: Guid, uses: Uses, material: &KeyMaterial) -> Option<Self> {
        let same = KeyMaterial { receiver: None, ..material.clone() } == self.material;
        let mut key = self.without_session_keys()?;
        if !same || owner != self.owner || uses != self.uses {
            return None;
        }
        material.receiver.iter().for_each(|receiver| key.add_receiver(receiver));
        Some(key)
    }

    /// The same key, no longer shared with this receiver.
    pub(super) fn without_receiver(&self, id: [u8; 4]) -> Option<Self> {
        let mut key = self.without_session_keys()?;
        key.receivers.retain(|receiver| receiver.id != id);
        Some(key)
    }

    /// The same key without expanded session keys, if all of them are idle for some calls: see
    /// [`IDLE_SESSIONS_INTERVAL`](crate::limits::IDLE_SESSIONS_INTERVAL). The next text expands a session key again.
    pub(super) fn without_idle_sessions(&self) -> Option<Self> {
        // Messages of a participant carry the samples of its user's endpoints.
        let is_of_users = self.uses.message || !self.owner.entity.is_builtin();
        let most = if is_of_users { USER_IDLE_INTERVALS } else { BUILTIN_IDLE_INTERVALS };
        if self.sessions.pass_interval(most) { self.without_session_keys() } else { None }
    }

    /// Begins an interval, for which texts may name new sessions again. [`Self::without_idle_sessions`] does so, too.
    pub(super) fn begin_interval(&self) {
        self.sessions.admit_again();
    }

    fn without_session_keys(&self) -> Option<Self> {
        let mut key = Self::new(self.owner, self.uses, &self.material)?;
        key.receivers.clone_from(&self.receivers);
        key.sessions = self.sessions.without_keys();
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
        let (id, parts) = (header.session_id, (additional, text));
        if let Some(first) = self.sessions.first(id) {
            self.open_with(first, scope, header, footer, parts)?;
            return Ok(self.owner);
        }
        let later = self.sessions.later();
        if let Some(session) = later.as_ref().and_then(|later| later.proved(id)) {
            self.open_with(session, scope, header, footer, parts)?;
            return Ok(self.owner);
        }
        // A text that is not for this participant needs no key.
        if !self.may_be_proved_by(scope, footer) {
            return Err(OpenError::NotAuthentic);
        }
        let session = self.sessions.unproved(id, self.receivers.len()).ok_or(OpenError::TooManySessions)?;
        self.open_with(&session, scope, header, footer, parts)?;
        // Only a session that the sender has used replaces an older one.
        self.sessions.prove(session);
        Ok(self.owner)
    }

    /// Whether the footer has the MACs that a text needs, right ones or not.
    fn may_be_proved_by(&self, scope: Scope, footer: &CryptoFooter<'_>) -> bool {
        if scope == Scope::Payload {
            // Payloads are the same for all readers, so a MAC for one of them is a sign of a change.
            return footer.receivers().len() == 0;
        }
        self.receivers.is_empty() || footer.receivers().any(|mac| self.position(mac.key_id).is_some())
    }

    /// The position of a receiver.
    fn position(&self, id: [u8; 4]) -> Option<usize> {
        self.receivers.iter().position(|receiver| receiver.id == id)
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
        let KeyMaterial { key, salt, .. } = &self.material;
        // The MACs for receivers first: they are short, and without a right one no key of the sender is derived.
        if scope == Scope::Payload || self.receivers.is_empty() {
            if !self.may_be_proved_by(scope, footer) {
                return Err(OpenError::NotAuthentic);
            }
        } else {
            let mut proofs = footer.receivers().filter_map(|mac| {
                let position = self.position(mac.key_id)?;
                let receiver = self.receivers.get(position)?;
                let derive = || Master::of_receiver(&receiver.key, salt, self.key_length).session(session.id());
                let key = session.receiver(position, derive)?;
                Some(key.open(iv, &mac.mac, &[], Text::Signed(&footer.common_mac)))
            });
            // One MAC proves the origin; a wrong MAC for another endpoint of this participant proves a change.
            let is_proved = proofs.next() == Some(true) && proofs.all(|is_right| is_right);
            if !is_proved {
                return Err(OpenError::NotAuthentic);
            }
        }
        let key = session.sender(|| Master::of_sender(key, salt, self.key_length).session(session.id()));
        if !key.open(iv, &footer.common_mac, additional, text) {
            return Err(OpenError::NotAuthentic);
        }
        session.note_use();
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn session_count(&self) -> usize {
        self.sessions.counts().0
    }

    /// The sessions whose keys were derived without a proof, and are kept.
    #[cfg(test)]
    pub(super) fn expected_count(&self) -> usize {
        self.sessions.counts().1
    }
}
