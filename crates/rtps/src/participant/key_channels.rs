//! ParticipantVolatileMessageSecure: keys for participants, each encrypted with the key of the pair (DDS Security 1.2
//! §7.5.4).
//!
//! Each peer has a writer of its own, all with the same entity id: no peer learns of numbers that are for others. One
//! reader serves all peers. The caller opens the channel with a peer once the protection has the key of the pair.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::secure_channel::{SecureChannel, SecureChannelCounters, SecureMessage, SecureSendError};
use crate::history::{Change, ChangeKind, Full, HistoryKind, ResourceLimits, Selector};
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::limits::{
    KEY_CHANNEL_BYTES_MAX, KEY_CHANNEL_BYTES_PER_PEER, KEY_CHANNEL_MEMORY_MAX, KEY_CHANNEL_MEMORY_PER_PEER,
    KEY_CHANNEL_MESSAGES_PER_PEER, KEY_CHANNEL_UNREAD_MAX, SECURE_MESSAGE_BYTES_MAX,
};
use crate::locator::Locator;
use crate::memory_account::{Charge, MemoryAccount};
use crate::payload::{Octets, Payload, Wipe};
use crate::protection::SharedProtection;
use crate::reader::{MatchedWriter, Reader, ReaderConfig, Reception};
use crate::receiver::{Envelope, Input};
use crate::time::{Instant, Span, Timestamp};
use crate::transmit::TransmitBatch;
use crate::vendor::VendorId;
use crate::writer::{KeptLimits, MatchedReader, Writer, WriterConfig};

/// See the same for discovery.
const MESSAGE_BYTES: usize = 1400;

/// The channels with all peers.
#[derive(Debug)]
pub(super) struct KeyChannels {
    prefix: GuidPrefix,
    seed: u64,
    protection: SharedProtection,
    /// Overwrites messages once they are acknowledged or were read.
    wipe: Wipe,
    reader: Reader,
    peers: BTreeMap<GuidPrefix, Box<Peer>>,
    /// Peers with messages to send.
    ready: BTreeSet<GuidPrefix>,
    /// The timers of writers. A writer whose messages are acknowledged has none.
    timers: BTreeMap<GuidPrefix, Instant>,
    /// Bytes that wait for acknowledgement, all peers together.
    held: Charge,
    account: Arc<MemoryAccount>,
    taken: VecDeque<SecureMessage>,
    counters: SecureChannelCounters,
}

/// A message with keys, in a buffer of its own. The bytes are overwritten when the last reference ends.
#[derive(Debug)]
struct Keys {
    octets: Payload,
    wipe: Wipe,
}

#[derive(Debug)]
struct Peer {
    writer: Writer,
    /// Bytes of its messages that wait for acknowledgement.
    held: usize,
}

impl KeyChannels {
    pub(super) fn new(
        prefix: GuidPrefix,
        seed: u64,
        protection: &SharedProtection,
        account: Arc<MemoryAccount>,
    ) -> Self {
        let mut config = ReaderConfig::new(Guid::new(prefix, EntityId::VOLATILE_SECURE_READER));
        config.reliable = true;
        // The keys that a peer has sent before this participant could open them are requested: the writers are
        // volatile, but keep what is not acknowledged.
        config.wants_history = true;
        config.max_sample_bytes = SECURE_MESSAGE_BYTES_MAX as u32;
        config.memory_per_writer = KEY_CHANNEL_MEMORY_PER_PEER;
        config.memory_per_reader = KEY_CHANNEL_MEMORY_MAX;
        config.cache.history = HistoryKind::KeepAll;
        config.cache.limits = ResourceLimits { max_samples: KEY_CHANNEL_UNREAD_MAX, ..ResourceLimits::UNLIMITED };
        config.cache.seed = seed;
        config.cache.account = Arc::clone(&account);
        config.protection = Some(protection.clone());
        let wipe = protection.wiper();
        config.wipe = Some(wipe);
        Self {
            prefix,
            seed,
            protection: protection.clone(),
            wipe,
            reader: Reader::new(config),
            peers: BTreeMap::new(),
            ready: BTreeSet::new(),
            timers: BTreeMap::new(),
            held: Charge::new(Arc::clone(&account)),
            account,
            taken: VecDeque::new(),
            counters: SecureChannelCounters::default(),
        }
    }

    /// Opens the channel with a peer at this address. An open one begins again.
    pub(super) fn open(
        &mut self,
        now: Instant,
        wall: Timestamp,
        peer: GuidPrefix,
        to: &Arc<[Locator]>,
        vendor: VendorId,
    ) {
        self.close(now, wall, peer);
        let writer = Writer::new(WriterConfig {
            history: HistoryKind::KeepAll,
            unlimited: KeptLimits { samples: KEY_CHANNEL_MESSAGES_PER_PEER, bytes: KEY_CHANNEL_BYTES_PER_PEER },
            max_message_bytes: MESSAGE_BYTES,
            default_message_bytes: MESSAGE_BYTES,
            seed: self.seed,
            names_reader: true,
            protection: Some(self.protection.clone()),
            ..WriterConfig::new(Guid::new(self.prefix, EntityId::VOLATILE_SECURE_WRITER))
        });
        self.peers.insert(peer, Box::new(Peer { writer, held: 0 }));
        self.reach(now, peer, to, vendor);
    }

    /// Sends to a peer at this address from now on, if the channel is open.
    pub(super) fn reach(&mut self, now: Instant, peer: GuidPrefix, to: &Arc<[Locator]>, vendor: VendorId) {
        if !self.peers.contains_key(&peer) {
            return;
        }
        let reader = MatchedReader {
            guid: Guid::new(peer, EntityId::VOLATILE_SECURE_READER),
            reliable: true,
            wants_history: true,
            to: Arc::clone(to),
            group: None,
            max_message_bytes: MESSAGE_BYTES,
            expects_inline_qos: false,
            positive_acks_disabled: false,
            vendor,
            filter: None,
            owed_answers: Arc::default(),
            // The peer is authenticated, and the only one of its channel.
            address_budget: Arc::default(),
        };
        let writer = MatchedWriter {
            guid: Guid::new(peer, EntityId::VOLATILE_SECURE_WRITER),
            reliable: true,
            has_history: true,
            strength: 0,
            lifespan: Span::INFINITE,
            liveliness_lease: Span::INFINITE,
            to: Arc::clone(to),
            max_message_bytes: MESSAGE_BYTES,
            vendor,
            memory: Arc::clone(&self.account),
            address_budget: Arc::default(),
        };
        self.reader.match_writer(now, writer);
        self.with(peer, |writer| writer.match_reader(now, reader));
    }

    /// Closes the channel with a peer. Messages that wait for acknowledgement are dropped.
    pub(super) fn close(&mut self, now: Instant, wall: Timestamp, peer: GuidPrefix) {
        let Some(held) = self.peers.remove(&peer).map(|peer| peer.held) else { return };
        self.held.set(self.held.bytes().saturating_sub(held));
        self.ready.remove(&peer);
        self.timers.remove(&peer);
        self.taken.retain(|message| message.from != peer);
        self.reader.unmatch_writer(now, wall, Guid::new(peer, EntityId::VOLATILE_SECURE_WRITER));
    }

    pub(super) fn send(
        &mut self,
        now: Instant,
        wall: Timestamp,
        peer: GuidPrefix,
        payload: &[u8],
    ) -> Result<(), SecureSendError> {
        let len = payload.len();
        if len > SECURE_MESSAGE_BYTES_MAX {
            return Err(SecureSendError::TooLong);
        }
        let has_room = self.held.bytes().saturating_add(len) <= KEY_CHANNEL_BYTES_MAX;
        let octets = Payload::new(Arc::new(payload.to_vec()), 0..len).unwrap_or_default();
        let payload = Keys { octets, wipe: self.wipe }.into_payload();
        let change = Change { kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp: wall, payload };
        let written: Option<Result<_, (Full, Change)>> =
            if has_room { self.with(peer, |writer| writer.write(now, change)) } else { None };
        match written {
            Some(Ok(_)) => {
                self.counters.keys_sent += 1;
                Ok(())
            }
            None if has_room => Err(SecureSendError::NotOpen),
            Some(Err(_)) | None => {
                self.counters.keys_refused += 1;
                Err(SecureSendError::Full)
            }
        }
    }

    /// Calls `f` with the writer for a peer, and notes what it has to send and when its timer is.
    fn with<T>(&mut self, peer: GuidPrefix, f: impl FnOnce(&mut Writer) -> T) -> Option<T> {
        let Peer { writer, held } = &mut **self.peers.get_mut(&peer)?;
        let result = f(writer);
        while writer.poll_event().is_some() {}
        let now_held = usize::try_from(writer.history().bytes_held()).unwrap_or(usize::MAX);
        self.held.set(self.held.bytes().saturating_sub(*held).saturating_add(now_held));
        if core::mem::replace(held, now_held) > 0 && now_held == 0 {
            // Peers exchange keys when they meet, and then rarely.
            writer.release_memory();
        }
        self.ready.insert(peer);
        match writer.poll_timeout() {
            Some((at, _)) => self.timers.insert(peer, at),
            None => self.timers.remove(&peer),
        };
        Some(result)
    }

    /// Passes an input to its endpoint. Returns whether there is one.
    pub(super) fn handle(&mut self, rx: &Reception<'_>, envelope: &Envelope, input: &Input<'_>) -> bool {
        let from = envelope.from;
        let (remote, local) = match input.is_for_reader() {
            true => (EntityId::VOLATILE_SECURE_WRITER, EntityId::VOLATILE_SECURE_READER),
            false => (EntityId::VOLATILE_SECURE_READER, EntityId::VOLATILE_SECURE_WRITER),
        };
        let is_for_all = envelope.to == EntityId::UNKNOWN && input.is_for_reader();
        if from.entity != remote || !(envelope.to == local || is_for_all) {
            return false;
        }
        match input {
            Input::Data(meta, data) => self.reader.handle_data(rx, from, *meta, data),
            Input::DataFrag(meta, frag) => self.reader.handle_data_frag(rx, from, *meta, frag),
            Input::Heartbeat(heartbeat) => self.reader.handle_heartbeat(rx, from, heartbeat),
            Input::HeartbeatFrag(heartbeat) => self.reader.handle_heartbeat_frag(rx, from, heartbeat),
            Input::Gap(gap) => self.reader.handle_gap(rx, from, gap),
            Input::AckNack(acknack) => {
                return self.with(from.prefix, |w| w.handle_acknack(rx.now, from, acknack)).is_some();
            }
            Input::NackFrag(nack) => {
                return self.with(from.prefix, |w| w.handle_nack_frag(rx.now, from, nack)).is_some();
            }
        }
        true
    }

    pub(super) fn handle_room(&mut self, now: Instant, locator: &Locator) {
        for peer in self.timers.keys().copied().collect::<Vec<_>>() {
            self.with(peer, |writer| writer.handle_room(now, locator));
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, wall: Timestamp) {
        let due = self.timers.iter().filter(|(_, at)| **at <= now).map(|(peer, _)| *peer);
        for peer in due.collect::<Vec<_>>() {
            self.with(peer, |writer| writer.handle_timeout(now));
        }
        self.reader.handle_timeout(now, wall);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let reader = self.reader.poll_timeout().map(|(at, _)| at);
        self.timers.values().copied().chain(reader).min()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBatch) -> bool {
        while let Some(peer) = self.ready.pop_first() {
            if self.peers.get_mut(&peer).is_some_and(|peer| peer.writer.poll_transmit(out)) {
                // That may let the writer send more.
                self.with(peer, |_| ());
                return true;
            }
        }
        self.reader.poll_transmit(now, out)
    }

    /// The next message that has come. Each call takes what the reader has only when all earlier messages were taken.
    pub(super) fn pop(&mut self, now: Instant, wall: Timestamp) -> Option<SecureMessage> {
        if self.taken.is_empty() {
            while self.reader.poll_event().is_some() {}
            let mut news = Vec::new();
            self.reader.select(&Selector::ANY, true, &mut news);
            self.reader.resume(now, wall);
            // Without a value, a sample only says that the writer is gone.
            for sample in news.into_iter().filter(|sample| sample.info.valid_data) {
                self.counters.keys_received += 1;
                self.taken.push_back(SecureMessage {
                    channel: SecureChannel::KeyExchange,
                    from: sample.info.writer.prefix,
                    source: None,
                    payload: Keys { octets: sample.payload, wipe: self.wipe }.into_payload(),
                });
            }
        }
        self.taken.pop_front()
    }

    /// The counters of this channel beside those of the other.
    pub(super) const fn add_counters(&self, to: SecureChannelCounters) -> SecureChannelCounters {
        let SecureChannelCounters { keys_sent, keys_refused, keys_received, .. } = self.counters;
        SecureChannelCounters { keys_sent, keys_refused, keys_received, ..to }
    }

    /// The number of open channels.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }
}

impl Drop for KeyChannels {
    /// The reader overwrites messages that were not complete or not in order. Messages that were not taken are
    /// overwritten by being taken.
    fn drop(&mut self) {
        let (now, wall) = (Instant(0), Timestamp::INVALID);
        for peer in core::mem::take(&mut self.peers).into_keys() {
            self.reader.unmatch_writer(now, wall, Guid::new(peer, EntityId::VOLATILE_SECURE_WRITER));
        }
        while self.pop(now, wall).is_some() {}
    }
}

impl Keys {
    fn into_payload(self) -> Payload {
        Payload::foreign(Arc::new(self))
    }
}

impl Octets for Keys {
    fn octets(&self) -> &[u8] {
        &self.octets
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let buffer = core::mem::take(&mut self.octets).into_buffer();
        if let Some(octets) = buffer.and_then(Arc::into_inner).as_mut() {
            (self.wipe)(octets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protection::mock::MockProtection;
    use crate::protection::{ProtectionKind, ProtectionLevels};

    /// Channels without a key, so that nothing leaves.
    fn channels() -> KeyChannels {
        let levels = ProtectionLevels { submessage: ProtectionKind::Encrypt, ..ProtectionLevels::default() };
        let protection = SharedProtection::new(MockProtection::without_keys(levels));
        KeyChannels::new(GuidPrefix([1; 12]), 7, &protection, Arc::default())
    }

    #[test]
    fn unacknowledged_keys_of_all_peers_together_are_bounded() {
        let mut channels = channels();
        let (now, wall) = (Instant(1), Timestamp::INVALID);
        let to: Arc<[Locator]> = Arc::new([Locator { kind: Locator::UDP_V4, port: 1, address: [9; 16], scope: 0 }]);
        let payload = std::vec![0; SECURE_MESSAGE_BYTES_MAX];
        let mut accepted = 0;
        for host in 2..30 {
            let peer = GuidPrefix([host; 12]);
            channels.open(now, wall, peer, &to, VendorId::PEREGRINE);
            while channels.send(now, wall, peer, &payload).is_ok() {
                accepted += SECURE_MESSAGE_BYTES_MAX;
            }
            assert!(channels.held.bytes() <= KEY_CHANNEL_BYTES_MAX);
        }
        assert_eq!(accepted, KEY_CHANNEL_BYTES_MAX);
        assert!(channels.counters.keys_refused > 0);
        for host in 2..30 {
            channels.close(now, wall, GuidPrefix([host; 12]));
        }
        assert_eq!((channels.held.bytes(), channels.len(), channels.timers.len()), (0, 0, 0));
    }

    #[test]
    fn number_of_unacknowledged_keys_of_a_peer_is_bounded() {
        let mut channels = channels();
        let (now, wall, peer) = (Instant(1), Timestamp::INVALID, GuidPrefix([2; 12]));
        let to: Arc<[Locator]> = Arc::new([Locator { kind: Locator::UDP_V4, port: 1, address: [9; 16], scope: 0 }]);
        channels.open(now, wall, peer, &to, VendorId::PEREGRINE);
        let payload = [0, 1, 0, 0];
        let accepted =
            (0..2 * KEY_CHANNEL_MESSAGES_PER_PEER).filter(|_| channels.send(now, wall, peer, &payload).is_ok()).count();
        assert_eq!(accepted, KEY_CHANNEL_MESSAGES_PER_PEER as usize);
    }
}
