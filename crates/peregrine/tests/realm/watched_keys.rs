//! The built-in keys, with a counter of the times that new ones came into use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use peregrine::security::plugins::Plugins;
use peregrine::security::plugins::cryptography::{Cryptographic, KeyFactory};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{Protection, ProtectionKind};
use peregrine_security::crypto::{ExchangeRole, KeyMaterial, PreSharedKeys, RefusedKeys};

type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

#[derive(Debug)]
struct WatchedKeys {
    builtin: KeyFactory,
    activated: Arc<AtomicUsize>,
}

/// Plug-ins, and how many times a sender has begun to use new keys.
pub(crate) fn watched_keys() -> (Plugins, Arc<AtomicUsize>) {
    let activated = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&activated);
    let make =
        move |builtin| -> Box<dyn Cryptographic> { Box::new(WatchedKeys { builtin, activated: Arc::clone(&counter) }) };
    (Plugins::new().cryptographic(make), activated)
}

impl Cryptographic for WatchedKeys {
    fn activate(&mut self, local: EntityId, random: Random<'_>) {
        self.builtin.activate(local, random);
        self.activated.fetch_add(1, Ordering::Relaxed);
    }

    fn protection(&self) -> Arc<dyn Protection> {
        Cryptographic::protection(&self.builtin)
    }

    fn set_pre_shared(&mut self, keys: Arc<PreSharedKeys>) {
        Cryptographic::set_pre_shared(&mut self.builtin, keys);
    }

    fn register_endpoint(&mut self, at: EntityId, frames: ProtectionKind, payload: ProtectionKind, random: Random<'_>) {
        self.builtin.register_endpoint(at, frames, payload, random);
    }

    fn unregister_endpoint(&mut self, endpoint: EntityId) {
        self.builtin.unregister_endpoint(endpoint);
    }

    fn set_exchange_key(&mut self, peer: GuidPrefix, key: &KeyMaterial, role: ExchangeRole, random: Random<'_>) {
        self.builtin.set_exchange_key(peer, key, role, random);
    }

    fn forget_participant(&mut self, peer: GuidPrefix) {
        self.builtin.forget_participant(peer);
    }

    fn match_remote(&mut self, local: EntityId, remote: Guid, random: Random<'_>) -> Vec<Vec<KeyMaterial>> {
        self.builtin.match_remote(local, remote, random)
    }

    fn unmatch_remote(&mut self, local: EntityId, remote: Guid) {
        self.builtin.unmatch_remote(local, remote);
    }

    fn set_remote_keys(&mut self, local: EntityId, remote: Guid, keys: &[KeyMaterial]) -> Result<(), RefusedKeys> {
        self.builtin.set_remote_keys(local, remote, keys)
    }

    fn remote_key_ids(&self, remote: Guid) -> &[[u8; 4]] {
        self.builtin.remote_key_ids(remote)
    }

    fn retire_remote_key(&mut self, remote: Guid, key_id: [u8; 4]) {
        self.builtin.retire_remote_key(remote, key_id);
    }

    fn drop_idle_sessions(&mut self) -> usize {
        self.builtin.drop_idle_sessions()
    }

    fn renew(&mut self, local: EntityId, random: Random<'_>) -> Vec<(Guid, Vec<KeyMaterial>)> {
        self.builtin.renew(local, random)
    }

    fn renewed_keys(&self, local: EntityId, remote: Guid) -> Option<Vec<KeyMaterial>> {
        self.builtin.renewed_keys(local, remote)
    }

    fn blocks_sealed(&self, sender: EntityId) -> u64 {
        Cryptographic::blocks_sealed(&self.builtin, sender)
    }
}
