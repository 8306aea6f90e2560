//! Accepts readers of other processes that request the samples of writers of this process.

use super::doorbell::DoorbellPage;
use super::link::{Address, Link, ListenSocket, Peer, Received, Trust};
use super::memory::Memory;
use super::message::{Message, ReaderKey, Refusal, WriterKey};
use super::page::{OwnedPage, PeerPage, Words};
use super::wake::DOORBELL_WORDS;
use crate::event::{Poller, Token};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Connections that have sent no request yet. One more closes the oldest: a working reader sends its request at once.
const MAX_SILENT: usize = 64;
/// Connections that one call accepts, so that the call ends whatever arrives.
const MAX_ACCEPTED: usize = 32;

/// Identifies a reader process: its credentials, and the inode of its sleeper page.
pub(super) type Identity = (Peer, u64, u64);

/// Accepts readers of other processes. One listener serves all writers of a process.
#[derive(Debug)]
pub struct Listener {
    socket: ListenSocket,
    doorbells: Arc<DoorbellPage<Identity, PeerPage>>,
    doorbell_page: Memory,
    /// At most [`MAX_SILENT`].
    silent: VecDeque<Link>,
    /// Readable when a connection or a first message has arrived.
    poller: Poller,
    rejected_connections: u64,
}

/// A reader's request to be admitted to a writer.
#[derive(Debug)]
pub struct Request {
    pub(super) link: Link,
    pub(super) writer: WriterKey,
    reader: ReaderKey,
    pub(super) holds: u32,
    pub(super) probe: u64,
    pub(super) sleeper: OwnedFd,
    pub(super) hold_page: OwnedFd,
    pub(super) doorbells: Arc<DoorbellPage<Identity, PeerPage>>,
    /// Memory of the doorbells, sent to the reader.
    pub(super) doorbell_page: Memory,
}

impl Listener {
    /// Creates a listener with a new address, for readers that are trusted.
    ///
    /// # Errors
    /// The process or the system is short of descriptors or memory, or the kernel is older than Linux 5.1.
    pub fn new(trust: Trust) -> io::Result<Self> {
        let (socket, poller) = (ListenSocket::open(trust)?, Poller::new()?);
        poller.add(&socket, Token(0))?;
        let doorbell_page = Memory::new("peregrine-doorbells", DOORBELL_WORDS * 8)?;
        let doorbells = DoorbellPage::new(OwnedPage::new(Words::of(&doorbell_page)));
        Ok(Self { socket, doorbells, doorbell_page, silent: VecDeque::new(), poller, rejected_connections: 0 })
    }

    /// The address that readers connect to.
    #[must_use]
    pub fn address(&self) -> Address {
        self.socket.address()
    }

    /// Number of rejected connections: untrusted users, and peers that did not follow the protocol.
    #[must_use]
    pub fn rejected_connections(&self) -> u64 {
        self.rejected_connections
    }

    /// The next request for admission. Call this until it returns `None` whenever the listener is readable.
    ///
    /// # Errors
    /// The process or the system is short of descriptors.
    pub fn accept(&mut self) -> io::Result<Option<Request>> {
        for _ in 0..MAX_ACCEPTED {
            match self.socket.accept() {
                Ok(Some(link)) => self.keep(link)?,
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.rejected_connections += 1,
                Err(error) => return Err(error),
            }
        }
        for _ in 0..self.silent.len() {
            let Some(link) = self.silent.pop_front() else { break };
            match link.receive() {
                Received::Nothing => self.silent.push_back(link),
                Received::Message(
                    Message::Hello { writer, reader, holds, probe },
                    [Some(sleeper), Some(hold_page)],
                ) => {
                    self.poller.remove(&link)?;
                    let (doorbells, doorbell_page) = (Arc::clone(&self.doorbells), self.doorbell_page.clone());
                    return Ok(Some(Request {
                        link,
                        writer,
                        reader,
                        holds,
                        probe,
                        sleeper,
                        hold_page,
                        doorbells,
                        doorbell_page,
                    }));
                }
                Received::Message(..) | Received::UserMessages(_) | Received::Closed | Received::Broken(_) => {
                    self.rejected_connections += 1;
                    self.poller.remove(&link)?;
                }
            }
        }
        Ok(None)
    }

    fn keep(&mut self, link: Link) -> io::Result<()> {
        if self.silent.len() >= MAX_SILENT
            && let Some(oldest) = self.silent.pop_front()
        {
            self.rejected_connections += 1;
            self.poller.remove(&oldest)?;
        }
        self.poller.add(&link, Token(1))?;
        self.silent.push_back(link);
        debug_assert!(self.silent.len() <= MAX_SILENT);
        Ok(())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

impl Request {
    /// The requested writer.
    #[must_use]
    pub fn writer(&self) -> WriterKey {
        self.writer
    }

    /// The reader that requests it.
    #[must_use]
    pub fn reader(&self) -> ReaderKey {
        self.reader
    }

    /// The process that requests it.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.link.peer()
    }

    /// Identity of the reader's process.
    ///
    /// # Errors
    /// The descriptor of the sleeper page is invalid.
    pub(super) fn identity(&self) -> io::Result<Identity> {
        let stat = rustix::fs::fstat(&self.sleeper)?;
        Ok((self.peer(), stat.st_dev, stat.st_ino))
    }

    /// Refuses the request.
    pub fn refuse(self, reason: Refusal) {
        // A reader that cannot be notified observes the end of the connection.
        let _ = self.link.send(&Message::Refused(reason), &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_past_the_bound_close_the_oldest() {
        let mut listener = Listener::new(Trust::SameUser).unwrap();
        let mut silent = VecDeque::new();
        for _ in 0..MAX_SILENT + 3 {
            silent.push_back(Link::connect(listener.address(), Trust::SameUser).unwrap());
            assert!(listener.accept().unwrap().is_none());
        }
        assert_eq!((listener.silent.len(), listener.rejected_connections()), (MAX_SILENT, 3));
        let rest = silent.split_off(3);
        assert!(silent.iter().all(|link| matches!(link.receive(), Received::Closed)));
        assert!(rest.iter().all(|link| matches!(link.receive(), Received::Nothing)));
    }
}
