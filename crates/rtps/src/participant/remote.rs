//! What is known of another participant.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::net::IpAddr;

use crate::discovery::data::{BuiltinEndpointSet, ParticipantData, PublicationData, SubscriptionData};
use crate::id::EntityId;
use crate::limits::{MEMORY_PER_PARTICIPANT_MAX, SHOWN_ADDRESSES_MAX};
use crate::locator::Locator;
use crate::reader::MemoryAccount;
use crate::time::Instant;
use crate::vendor::Quirks;

use super::drops::Drops;
use super::paths::Paths;

#[derive(Debug)]
pub(super) struct RemoteParticipant {
    pub(super) data: ParticipantData,
    /// Where discovery reaches it.
    pub(super) metatraffic: Arc<[Locator]>,
    pub(super) found_at: Instant,
    /// When it announced itself last.
    pub(super) heard_at: Instant,
    pub(super) lease_until: Instant,
    /// It has shown that it hears us.
    pub(super) is_verified: bool,
    /// It has been heard from where discovery reaches it.
    pub(super) is_reachable: bool,
    /// Where it was heard from: as many of the last as [`SHOWN_ADDRESSES_MAX`].
    pub(super) shown: VecDeque<IpAddr>,
    /// Bytes of announcements that came from it, less those of the answers.
    pub(super) credit_bytes: usize,
    /// What was dropped of it.
    pub(super) drops: Drops,
    /// What local readers hold for its writers.
    pub(super) memory: Arc<MemoryAccount>,
    /// When it was last sent an announcement of its own.
    pub(super) answered_at: Option<Instant>,
    pub(super) publications: BTreeMap<EntityId, PublicationData>,
    pub(super) subscriptions: BTreeMap<EntityId, SubscriptionData>,
    /// Bytes of discovery data kept of it, by endpoint.
    pub(super) kept_bytes: BTreeMap<EntityId, usize>,
    pub(super) kept_bytes_total: usize,
}

impl RemoteParticipant {
    pub(super) fn new(now: Instant, data: ParticipantData, source: IpAddr) -> Self {
        let mut remote = Self {
            data,
            metatraffic: Arc::new([]),
            found_at: now,
            heard_at: now,
            lease_until: now,
            is_verified: false,
            is_reachable: false,
            shown: VecDeque::from([source]),
            credit_bytes: 0,
            drops: Drops::default(),
            memory: Arc::new(MemoryAccount::new(MEMORY_PER_PARTICIPANT_MAX)),
            answered_at: None,
            publications: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            kept_bytes: BTreeMap::new(),
            kept_bytes_total: 0,
        };
        remote.renew(now);
        remote
    }

    pub(super) fn renew(&mut self, now: Instant) {
        self.heard_at = now;
        self.lease_until = now + self.data.lease_duration;
    }

    /// It was heard from there. Says whether that is news.
    pub(super) fn show(&mut self, source: IpAddr) -> bool {
        if self.shown.contains(&source) {
            return false;
        }
        if self.shown.len() >= SHOWN_ADDRESSES_MAX {
            self.shown.pop_front();
        }
        self.shown.push_back(source);
        true
    }

    /// Whether it or one of its endpoints names an address of this host.
    pub(super) fn names(&self, host: IpAddr, paths: &Paths) -> bool {
        let own = self.data.metatraffic_unicast.iter().chain(&self.data.default_unicast);
        let of_writers = self.publications.values().flat_map(|p| &p.unicast);
        let of_readers = self.subscriptions.values().flat_map(|s| &s.unicast);
        let mut all = own.chain(of_writers).chain(of_readers).filter_map(|l| l.to_socket_addr());
        all.any(|address| paths.is_same_host(host, address.ip()))
    }

    /// Notes where discovery reaches it. A way that was once shown to be one is kept when there is none.
    pub(super) fn choose_way(&mut self, paths: &Paths) {
        let named = &self.data.metatraffic_unicast;
        let shown = paths.choose_shown(named, self.shown.make_contiguous()).to;
        if !shown.is_empty() {
            self.metatraffic = shown;
            self.is_reachable = true;
        } else if !self.is_reachable {
            self.metatraffic = paths.choose(named).to;
        }
    }

    /// Which built-in endpoints to join.
    pub(super) const fn builtin_endpoints(&self) -> BuiltinEndpointSet {
        let announced = self.data.builtin_endpoints;
        if Quirks::of(self.data.vendor).assume_participant_message {
            return announced
                .with(BuiltinEndpointSet::PARTICIPANT_MESSAGE_READER)
                .with(BuiltinEndpointSet::PARTICIPANT_MESSAGE_WRITER);
        }
        announced
    }
}
