//! What readers of this process ask of writers of others: to be admitted. Who is asked may be slow, or never answer.
//!
//! A question that is not answered in time is given up, and its reader gets messages. Of one process only so many are asked
//! at a time: a process that has just begun is asked by all readers of a host at once, and its kernel keeps few for it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use peregrine_rtps::discovery::data::{ParticipantData, SharedMemoryAddress};
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::event::Token;
use peregrine_transport::shm::{Address, Connecting, Connection, HostIdentity, Peer, ReaderKey, WriterKey};

use super::{SharedMemory, Source, Tending, lock};
use crate::driver::domain::Domain;
use crate::driver::reader::ReaderCore;
use crate::driver::{local, now};
use crate::shared_memory::{DeliveryPath, NoSharedMemory};

/// How long a question may stay without an answer. Who is asked waits up to [`super::PATIENCE`] for its own discovery.
pub(super) const ANSWER_PATIENCE: Span = Span::from_secs(15);
/// How many questions of this process one other may have before it; further ones wait. Half of what its kernel keeps for it.
pub(super) const UNANSWERED_MAX: usize = 32;

/// A channel that the reader's side asks for.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) reader: Weak<ReaderCore>,
    pub(super) reader_guid: Guid,
    pub(super) writer: Guid,
    pub(super) at: SharedMemoryAddress,
    /// When it is too late for an answer.
    pub(super) until: Instant,
}

impl Wanted {
    /// Whether it is for this reader, and this writer if one is named.
    fn is_for(&self, reader: Guid, writer: Option<Guid>) -> bool {
        self.reader_guid == reader && writer.is_none_or(|writer| self.writer == writer)
    }
}

/// What whoever tends is told of.
#[derive(Default)]
pub(super) struct Questions {
    wanted: Vec<Wanted>,
    /// Of a reader, and of one writer or all: kept while something is asked.
    taken_back: Vec<(Guid, Option<Guid>)>,
    is_asking: bool,
}

impl SharedMemory {
    /// A reader of this process matches a writer of another participant. Whether its samples could come by shared memory is
    /// found out later, by whoever tends. Those of this process come by reference.
    pub(in crate::driver) fn want(&self, reader: &Arc<ReaderCore>, writer: Guid, data: &ParticipantData) {
        if reader.domain.config.same_process && local::writer(writer).is_some() {
            return;
        }
        let Some(at) = data.shared_memory.as_deref().copied().filter(|at| at.address != self.address.0) else { return };
        self.want_at(reader, writer, at);
    }

    pub(super) fn want_at(&self, reader: &Arc<ReaderCore>, writer: Guid, at: SharedMemoryAddress) {
        let until = now() + ANSWER_PATIENCE;
        let wanted = Wanted { reader: Arc::downgrade(reader), reader_guid: reader.guid, writer, at, until };
        lock(&self.questions).wanted.push(wanted);
        self.wake();
    }

    /// They match no more.
    pub(in crate::driver) fn unwant(&self, reader: Guid, writer: Guid) {
        self.take_back(reader, Some(writer));
    }

    /// A reader of this process is gone.
    pub(in crate::driver) fn forget_reader(&self, reader: Guid) {
        self.take_back(reader, None);
    }

    fn take_back(&self, reader: Guid, writer: Option<Guid>) {
        let mut questions = lock(&self.questions);
        questions.wanted.retain(|wanted| !wanted.is_for(reader, writer));
        let is_asking = questions.is_asking;
        if is_asking {
            questions.taken_back.push((reader, writer));
        }
        drop(questions);
        if is_asking {
            self.wake();
        }
        if self.has_writers() {
            self.incoming.remove(reader, writer);
        }
    }

    /// What is wanted and no more wanted since the last time.
    pub(super) fn take_up_questions(&self, tending: &mut Tending) {
        let mut questions = lock(&self.questions);
        let (wanted, taken_back) = (std::mem::take(&mut questions.wanted), std::mem::take(&mut questions.taken_back));
        // From now on whoever takes one back says so.
        questions.is_asking |= !wanted.is_empty();
        drop(questions);
        for (reader, writer) in taken_back {
            tending.queued.retain(|wanted| !wanted.is_for(reader, writer));
            tending.sources.retain(|(_, source)| !source.asks(|wanted| wanted.is_for(reader, writer)));
            // It may have been answered in this very moment.
            if self.has_writers() {
                self.incoming.remove(reader, writer);
            }
        }
        tending.queued.extend(wanted);
    }

    /// Whether there is something to be taken back.
    pub(super) fn note_asking(&self, is_asking: bool) {
        let mut questions = lock(&self.questions);
        questions.is_asking = is_asking || !questions.wanted.is_empty();
    }

    /// Asks what has its turn.
    pub(super) fn ask(&self, tending: &mut Tending) {
        if tending.queued.is_empty() {
            return;
        }
        let mut asked: HashMap<[u8; 16], usize> = HashMap::new();
        for at in tending.sources.iter().filter_map(|(_, source)| source.question()).map(|wanted| wanted.at) {
            *asked.entry(at.address).or_default() += 1;
        }
        for wanted in std::mem::take(&mut tending.queued) {
            let count = asked.entry(wanted.at.address).or_default();
            if *count >= UNANSWERED_MAX {
                tending.queued.push_back(wanted);
            } else if self.connect(tending, wanted) {
                *count += 1;
            }
        }
    }

    /// Whoever has not been answered in time gets messages.
    pub(super) fn give_up_unanswered(&self, tending: &mut Tending, now: Instant) {
        if tending.unanswered().all(|wanted| wanted.until > now) {
            return;
        }
        let is_late = |wanted: &Wanted| wanted.until <= now;
        let late: Vec<Wanted> = tending.unanswered().filter(|wanted| is_late(wanted)).cloned().collect();
        tending.sources.retain(|(_, source)| !source.asks(is_late));
        tending.queued.retain(|wanted| !is_late(wanted));
        for wanted in late {
            let text = format!("the writer's process has not answered for {ANSWER_PATIENCE}");
            self.fall_back(&wanted, NoSharedMemory::NotConnected(text));
        }
    }

    /// Says whether an answer is to be expected.
    fn connect(&self, tending: &mut Tending, wanted: Wanted) -> bool {
        match self.try_connect(&wanted) {
            Ok(connecting) => {
                let token = tending.next_token();
                if let Err(error) = tending.poller.add(&connecting, token) {
                    self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string()));
                    return false;
                }
                tending.sources.push((token, Source::Connecting(Box::new((connecting, wanted)))));
                true
            }
            Err(reason) => {
                self.fall_back(&wanted, reason);
                false
            }
        }
    }

    fn try_connect(&self, wanted: &Wanted) -> Result<Connecting, NoSharedMemory> {
        let apart = |apart: peregrine_transport::shm::NotColocated| NoSharedMemory::Apart(apart.to_string());
        if let Some(what) = self.place.separation_from(&HostIdentity(wanted.at.host)) {
            return Err(apart(what));
        }
        let (writer, reader) = (WriterKey(wanted.writer.to_bytes()), ReaderKey(wanted.reader_guid.to_bytes()));
        let connecting = self.incoming.connector.connect(Address(wanted.at.address), writer, reader);
        let connecting = connecting.map_err(|error| NoSharedMemory::NotConnected(error.to_string()))?;
        connecting.peer().map_or(Ok(()), Peer::check_namespaces).map_err(apart)?;
        Ok(connecting)
    }

    pub(super) fn go_on_connecting(
        &self,
        tending: &mut Tending,
        token: Token,
        (mut connecting, wanted): (Connecting, Wanted),
        domain: &Arc<Domain>,
    ) {
        // Its descriptor stays, and is waited for in another way.
        let _ = tending.poller.remove(&connecting);
        match connecting.poll() {
            Ok(None) => match tending.poller.add(&connecting, token) {
                Ok(()) => tending.sources.push((token, Source::Connecting(Box::new((connecting, wanted))))),
                Err(error) => self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string())),
            },
            Ok(Some(connection)) => self.connected(tending, connection, wanted, domain),
            Err(error) => self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string())),
        }
    }

    fn connected(&self, tending: &mut Tending, connection: Connection, wanted: Wanted, domain: &Arc<Domain>) {
        if wanted.reader.strong_count() == 0 {
            return;
        }
        let token = tending.next_token();
        if let Err(error) = tending.poller.add_for_end(&connection, token) {
            return self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string()));
        }
        let count = Arc::new(());
        tending.sources.push((token, Source::Reader(Arc::downgrade(&count))));
        self.counters.writers.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(writer = %wanted.writer, reader = %wanted.reader_guid, "samples come by shared memory");
        if let Some(participant) = domain.participant(&wanted.reader_guid.prefix) {
            participant.observe_path(wanted.reader_guid, wanted.writer, DeliveryPath::SharedMemory);
        }
        self.incoming.add(connection, wanted, count, domain);
    }

    pub(super) fn fall_back(&self, wanted: &Wanted, reason: NoSharedMemory) {
        let domain = self.domain.get().and_then(Weak::upgrade);
        let Some(participant) = domain.and_then(|domain| domain.participant(&wanted.reader_guid.prefix)) else {
            return;
        };
        self.note_fallback(&participant, wanted.reader_guid, wanted.writer, reason);
    }
}

impl Source {
    /// The question that has no answer yet, if it is one.
    fn question(&self) -> Option<&Wanted> {
        match self {
            Self::Connecting(question) => Some(&question.1),
            Self::Writer(..) | Self::Reader(_) => None,
        }
    }

    fn asks(&self, is_meant: impl Fn(&Wanted) -> bool) -> bool {
        self.question().is_some_and(is_meant)
    }
}

impl Tending {
    /// The questions that have no answer yet, with those that have not been asked.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Wanted> {
        self.sources.iter().filter_map(|(_, source)| source.question()).chain(&self.queued)
    }

    pub(super) fn is_asking(&self) -> bool {
        self.unanswered().next().is_some()
    }
}
