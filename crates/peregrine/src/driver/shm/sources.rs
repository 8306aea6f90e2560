//! The descriptors that the connection manager polls: requests without an answer, and both sides' ends of channels.
//!
//! Every event of a descriptor needs its source, so sources are found by their tokens, by the channel that readers
//! share, and by the writer. Nothing here walks through all channels, except to remove ended ones when their number has
//! doubled.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use peregrine_rtps::id::Guid;
use peregrine_transport::event::Token;
use peregrine_transport::shm::ReaderId;

use super::requests::{ChannelKey, PendingConnection, ReaderRequest};
use crate::driver::base::weak_list::Pruning;
use crate::driver::endpoint::writer::WriterCore;

/// The polled descriptors other than the listener.
#[derive(Default)]
pub(super) struct Sources {
    /// The last token that was given.
    last_token: u64,
    /// Channel requests without an answer.
    connecting: HashMap<Token, Box<PendingConnection>>,
    /// Number of such requests to each process.
    asked: HashMap<[u8; 16], usize>,
    ends: HashMap<Token, ChannelEnd>,
    pruning: Pruning,
    /// The request or the channel that readers of this process share.
    by_key: HashMap<ChannelKey, Token>,
    writers: HashMap<Guid, WriterEnds>,
}

/// This process's end of a channel.
#[derive(Clone)]
pub(super) enum ChannelEnd {
    /// The writer's end.
    Writer(Guid, ReaderId),
    /// The reader's end, as long as the reference is alive.
    Reader(ChannelKey, Weak<()>),
}

/// The polled channels of a writer of this process.
struct WriterEnds {
    core: Weak<WriterCore>,
    channels: Vec<(ReaderId, Token)>,
}

/// A request or channel that readers of this process share.
pub(super) enum Shared<'a> {
    /// A request without an answer.
    Request(&'a mut PendingConnection),
    Channel,
}

impl Sources {
    /// A token that no other source has had.
    pub(super) fn next_token(&mut self) -> Token {
        self.last_token += 1;
        Token(self.last_token)
    }

    /// Adds a channel request.
    pub(super) fn add_request(&mut self, token: Token, pending: Box<PendingConnection>) {
        *self.asked.entry(pending.wanted.at.address).or_default() += 1;
        self.by_key.insert(pending.wanted.key, token);
        self.connecting.insert(token, pending);
    }

    /// Removes a channel request.
    pub(super) fn take_request(&mut self, token: Token) -> Option<Box<PendingConnection>> {
        let pending = self.connecting.remove(&token)?;
        if let Some(count) = self.asked.get_mut(&pending.wanted.at.address) {
            *count -= 1;
            if *count == 0 {
                self.asked.remove(&pending.wanted.at.address);
            }
        }
        self.forget_key(pending.wanted.key, token);
        Some(pending)
    }

    /// Removes the channel requests that name a reader for which `is_meant`, called with the writer, is true.
    pub(super) fn take_requests(&mut self, is_meant: impl Fn(&ReaderRequest, Guid) -> bool) -> Vec<PendingConnection> {
        let names_meant = |pending: &PendingConnection| {
            pending.wanted.readers.first().is_some_and(|named| is_meant(named, pending.wanted.key.writer))
        };
        let meant = self.connecting.iter().filter(|(_, pending)| names_meant(pending));
        let meant: Vec<Token> = meant.map(|(token, _)| *token).collect();
        meant.into_iter().filter_map(|token| self.take_request(token)).map(|pending| *pending).collect()
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &PendingConnection> {
        self.connecting.values().map(|pending| &**pending)
    }

    pub(super) fn requests_mut(&mut self) -> impl Iterator<Item = &mut PendingConnection> {
        self.connecting.values_mut().map(|pending| &mut **pending)
    }

    pub(super) fn has_requests(&self) -> bool {
        !self.connecting.is_empty()
    }

    /// Number of channels that readers of this process share, and of requests for such channels.
    pub(super) fn shared(&self) -> usize {
        self.by_key.len()
    }

    /// Number of channel requests without an answer to the process with this address.
    pub(super) fn requests_to(&self, address: &[u8; 16]) -> usize {
        self.asked.get(address).copied().unwrap_or(0)
    }

    /// Adds the reader's end of a channel, which holds `count` while it exists.
    pub(super) fn add_reader(&mut self, token: Token, key: ChannelKey, count: &Arc<()>) {
        self.prune_ends();
        self.by_key.insert(key, token);
        self.ends.insert(token, ChannelEnd::Reader(key, Arc::downgrade(count)));
    }

    /// Adds a writer's end of a channel.
    pub(super) fn add_writer(&mut self, token: Token, core: &Arc<WriterCore>, channel: ReaderId) {
        self.prune_ends();
        let of_writer = self.writers.entry(core.guid);
        let of_writer = of_writer.or_insert_with(|| WriterEnds { core: Arc::downgrade(core), channels: Vec::new() });
        of_writer.channels.push((channel, token));
        self.ends.insert(token, ChannelEnd::Writer(core.guid, channel));
    }

    pub(super) fn end(&self, token: Token) -> Option<ChannelEnd> {
        self.ends.get(&token).cloned()
    }

    /// The writer with polled channels, unless it is deleted.
    pub(super) fn writer(&self, guid: Guid) -> Option<Arc<WriterCore>> {
        self.writers.get(&guid)?.core.upgrade()
    }

    /// All writers with polled channels.
    pub(super) fn writers(&self) -> impl Iterator<Item = Arc<WriterCore>> {
        self.writers.values().filter_map(|of_writer| of_writer.core.upgrade())
    }

    /// Removes the end of a channel.
    pub(super) fn remove_end(&mut self, token: Token) {
        match self.ends.remove(&token) {
            Some(ChannelEnd::Reader(key, _)) => self.forget_key(key, token),
            Some(ChannelEnd::Writer(writer, _)) => {
                if let Some(of_writer) = self.writers.get_mut(&writer) {
                    of_writer.channels.retain(|(_, other)| *other != token);
                    if of_writer.channels.is_empty() {
                        self.writers.remove(&writer);
                    }
                }
            }
            None => {}
        }
    }

    /// Removes the channels of a writer that no descriptor reports any more.
    pub(super) fn remove_ended(&mut self, core: &WriterCore) {
        let Some(of_writer) = self.writers.get_mut(&core.guid) else { return };
        let ended = of_writer.channels.extract_if(.., |(channel, _)| !core.has_channel(*channel));
        ended.for_each(|(_, token)| drop(self.ends.remove(&token)));
        if of_writer.channels.is_empty() {
            self.writers.remove(&core.guid);
        }
    }

    /// The request or the channel that readers with this key share.
    pub(super) fn find(&mut self, key: ChannelKey) -> Option<Shared<'_>> {
        let token = *self.by_key.get(&key)?;
        if self.connecting.contains_key(&token) {
            return self.connecting.get_mut(&token).map(|pending| Shared::Request(pending));
        }
        if self.ends.get(&token).is_some_and(ChannelEnd::is_alive) {
            return Some(Shared::Channel);
        }
        self.remove_end(token);
        None
    }

    pub(super) fn clear(&mut self) {
        *self = Self { last_token: self.last_token, ..Self::default() };
    }

    fn forget_key(&mut self, key: ChannelKey, token: Token) {
        if self.by_key.get(&key) == Some(&token) {
            self.by_key.remove(&key);
        }
    }

    /// Removes the ends that this process has dropped, which no event reports.
    fn prune_ends(&mut self) {
        if !self.pruning.is_due(self.ends.len()) {
            return;
        }
        let Self { ends, by_key, writers, .. } = self;
        writers.retain(|_, of_writer| of_writer.core.strong_count() > 0);
        ends.retain(|_, end| match end {
            ChannelEnd::Reader(..) => end.is_alive(),
            ChannelEnd::Writer(writer, _) => writers.contains_key(writer),
        });
        by_key.retain(|_, token| ends.contains_key(token) || self.connecting.contains_key(token));
        self.pruning.done(self.ends.len());
    }

    /// Number of requests, and of ends of channels that this process has not dropped.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.connecting.len() + self.ends.values().filter(|end| end.is_alive()).count()
    }
}

impl ChannelEnd {
    /// False for a reader's end that this process has dropped.
    fn is_alive(&self) -> bool {
        match self {
            Self::Writer(..) => true,
            Self::Reader(_, count) => count.strong_count() > 0,
        }
    }
}
