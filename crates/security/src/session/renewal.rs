//! Renewal of keys: new ones are sent, used some time later, and old ones of peers are dropped.

use peregrine_rtps::id::EntityId;

use super::peer::PairKey;
use super::state::Session;
use super::step::{RenewalCause, SecurityEvent};
use crate::authentication::Input;
use crate::limits::{ACTIVATION_DELAY, BLOCKS_CHECK_INTERVAL, RENEWAL_INTERVAL};

/// The keys to be renewed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Renewal {
    /// The keys of the participant and of all endpoints.
    All,
    /// The keys of the participant ([`EntityId::PARTICIPANT`]) or of one endpoint.
    Of(EntityId),
}

impl Session {
    /// Renews keys. All receivers get the new ones, which are used [`ACTIVATION_DELAY`] later; receivers open with the
    /// old ones for [`OLD_KEY_TIME`](crate::limits::OLD_KEY_TIME). Renewals follow each other after
    /// [`RENEWAL_INTERVAL`] at the earliest; an earlier one is postponed.
    pub fn renew_keys(&mut self, input: &mut Input<'_>, renewal: Renewal) {
        self.set_clock(input);
        let senders = match renewal {
            Renewal::Of(sender) => vec![sender],
            Renewal::All => core::iter::once(EntityId::PARTICIPANT).chain(self.locals.keys().copied()).collect(),
        };
        self.want_renewal(senders, RenewalCause::Demand);
        self.serve_renewal(input);
    }

    /// Notes that the keys of these local senders are to be renewed.
    pub(super) fn want_renewal(&mut self, senders: Vec<EntityId>, cause: RenewalCause) {
        for sender in senders.into_iter().filter(|sender| self.seals(*sender)).collect::<Vec<_>>() {
            let wanted = self.renewal_wanted.entry(sender).or_insert(cause);
            *wanted = cause.max(*wanted);
        }
    }

    /// Does what is due.
    pub(super) fn serve_renewal(&mut self, input: &mut Input<'_>) {
        while let Some((owner, key_id)) = self.retirement.pop(input.now) {
            self.keys.retire_remote_key(owner, key_id);
            self.statistics.keys_retired = self.statistics.keys_retired.saturating_add(1);
        }
        if let Some((_, senders)) = self.activating.take_if(|(at, _)| *at <= input.now) {
            senders.into_iter().for_each(|sender| self.keys.activate(sender, input.random));
        }
        self.check_blocks(input);
        let is_due = input.now >= self.renewal_not_before && self.activating.is_none();
        if is_due && !self.renewal_wanted.is_empty() {
            self.begin_renewal(input);
        }
    }

    fn begin_renewal(&mut self, input: &mut Input<'_>) {
        let wanted = core::mem::take(&mut self.renewal_wanted);
        let Some(cause) = wanted.values().max().copied() else { return };
        let senders: Vec<EntityId> = wanted.into_keys().filter(|sender| self.seals(*sender)).collect();
        if senders.is_empty() {
            return;
        }
        for sender in &senders {
            // The messages are made one by one, when they are taken.
            drop(self.keys.renew(*sender, input.random));
        }
        let mut pairs = Vec::new();
        for (peer, state) in &mut self.peers {
            for ((local, remote), pair) in &mut state.matches {
                if senders.binary_search(local).is_ok() && pair.renew() {
                    pairs.push(PairKey { peer: *peer, local: *local, remote: *remote });
                }
            }
        }
        pairs.into_iter().for_each(|pair| self.enqueue(pair));
        self.statistics.renewals = self.statistics.renewals.saturating_add(1);
        self.renewal_not_before = input.now + RENEWAL_INTERVAL;
        self.report(SecurityEvent::KeysRenewed { senders: senders.len(), cause });
        self.activating = Some((input.now + ACTIVATION_DELAY, senders));
    }

    fn check_blocks(&mut self, input: &Input<'_>) {
        let Some(blocks) = self.config.blocks_per_key else { return };
        if input.now < self.blocks_checked + BLOCKS_CHECK_INTERVAL {
            return;
        }
        self.blocks_checked = input.now;
        // The senders under way still seal with their old keys.
        let under_way = self.activating.as_ref().map(|(_, senders)| senders.as_slice()).unwrap_or_default();
        let all = core::iter::once(EntityId::PARTICIPANT).chain(self.locals.keys().copied());
        let is_used_up = |sender: &EntityId| self.keys.blocks_sealed(*sender) >= blocks.max(1);
        let used_up: Vec<EntityId> = all.filter(|sender| !under_way.contains(sender)).filter(is_used_up).collect();
        self.want_renewal(used_up, RenewalCause::Blocks);
    }

    /// Whether a local entity seals with keys of its own.
    fn seals(&self, sender: EntityId) -> bool {
        if sender == EntityId::PARTICIPANT {
            return !self.rights.domain_rule().messages.is_none();
        }
        self.locals.get(&sender).is_some_and(|local| {
            let levels = local.security.levels;
            !levels.submessage.is_none() || (sender.is_writer() && !levels.payload.is_none())
        })
    }
}
