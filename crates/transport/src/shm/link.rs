//! Unix sockets of the handshake. They have abstract names, which exist in no file system and end with the process;
//! each side checks the user of the other; messages carry descriptors.
//!
//! An abstract name belongs to a network namespace: a process of another namespace cannot connect. A connection is the
//! first proof that both processes are on one host.

use super::message::{MESSAGE_BYTES, Message, UserMessage};
use crate::{event, random, sys};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Address of the writers of a process for readers on the same host: the random abstract name of a Unix socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(pub [u8; 16]);

impl Address {
    fn to_unix(self) -> io::Result<SocketAddrUnix> {
        let name = format!("peregrine-{:032x}", u128::from_be_bytes(self.0));
        #[cfg(feature = "simulation")]
        let name = match crate::simulation::with(|machine| machine.namespace()) {
            Some(namespace) => format!("{name}-{}-{namespace}", std::process::id()),
            None => name,
        };
        Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
    }
}

/// The users that a process trusts with its samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// The user that this process runs as.
    #[default]
    SameUser,
    /// Every user of the host.
    AnyUser,
}

/// The user id that the kernel reports for a user unknown in this user namespace. Two such peers may be different
/// users.
const UNKNOWN_USER: u32 = 65_534;

/// The process at the other end, as the kernel reports it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Peer {
    /// Process id; 0 if it is not visible here (another PID namespace).
    pub process: i32,
    /// User id.
    pub user: u32,
}

impl Trust {
    /// # Errors
    /// The peer runs as a user that is not trusted.
    fn check(self, peer: Peer) -> io::Result<()> {
        let own = rustix::process::geteuid().as_raw();
        let is_trusted = match self {
            Self::SameUser => peer.user == own && own != UNKNOWN_USER,
            Self::AnyUser => true,
        };
        if is_trusted {
            return Ok(());
        }
        let text = if peer.user == UNKNOWN_USER {
            format!("user {UNKNOWN_USER} stands for every user unknown in this user namespace and is not trusted")
        } else {
            format!("process {} runs as user {}, this one as user {own}", peer.process, peer.user)
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }
}

/// Result of a receive on a link.
#[derive(Debug)]
pub(super) enum Received {
    /// No message has arrived yet.
    Nothing,
    /// The other side is gone.
    Closed,
    /// A message is lost: the other side has violated the protocol, or the system lacks a resource. The other side may
    /// still exist.
    Broken(&'static str),
    /// A message with its number of descriptors.
    Message(Message, [Option<OwnedFd>; 2]),
    /// Messages of the user of the other side: at least one, at most [`USER_MESSAGES_PER_PACKET`].
    UserMessages(Vec<UserMessage>),
}

/// Maximum number of user messages that travel in one packet. Every other message is a packet of its own.
pub(super) const USER_MESSAGES_PER_PACKET: usize = 32;

/// One end of the connection between a reader and a writer. It stays open as long as the channel exists; when it
/// closes, the other process has left or ended.
#[derive(Debug)]
pub(super) struct Link {
    fd: Descriptor,
    peer: Peer,
}

impl Link {
    /// # Errors
    /// No listener has this address in this network namespace, the listener's backlog is full, or the user is not
    /// trusted.
    pub(super) fn connect(address: Address, trust: Trust) -> io::Result<Self> {
        let fd = socket()?;
        rustix::net::connect(&fd, &address.to_unix()?)
            .map_err(|error| sys::in_operation("connecting to the writer's process", &error.into()))?;
        Self::new(fd, trust)
    }

    fn new(fd: OwnedFd, trust: Trust) -> io::Result<Self> {
        let peer = credentials(fd.as_fd())?;
        trust.check(peer)?;
        Ok(Self { fd: own(fd), peer })
    }

    /// Whether the other side has not closed the link. A failed check counts as closed.
    pub(super) fn is_open(&self) -> bool {
        let mut requests = [libc::pollfd { fd: self.fd.as_raw_fd(), events: 0, revents: 0 }];
        let is_asked = event::poll(&mut requests, Some(Duration::ZERO)).is_ok();
        is_asked && requests.iter().all(|request| request.revents == 0)
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// Sends without waiting. Returns false if the socket buffer is full.
    ///
    /// # Errors
    /// The other side is gone, or too many descriptors are in flight.
    pub(super) fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<bool> {
        debug_assert_eq!(descriptors.len(), message.descriptors());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let pushed = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            debug_assert!(pushed, "the space is for two descriptors");
        }
        #[cfg(feature = "simulation")]
        if !descriptors.is_empty() {
            crate::simulation::check_descriptors()?;
        }
        self.send_packet(&message.encode(), &mut ancillary)
    }

    /// Sends messages of the user without waiting, as one packet. Returns false if the socket buffer is full.
    ///
    /// # Errors
    /// The other side is gone.
    pub(super) fn send_user_messages(&self, messages: &[UserMessage]) -> io::Result<bool> {
        debug_assert!((1..=USER_MESSAGES_PER_PACKET).contains(&messages.len()));
        let mut bytes = [0; MESSAGE_BYTES * USER_MESSAGES_PER_PACKET];
        let mut len = 0;
        for (place, message) in bytes.as_chunks_mut::<MESSAGE_BYTES>().0.iter_mut().zip(messages) {
            *place = Message::User(*message).encode();
            len += MESSAGE_BYTES;
        }
        self.send_packet(bytes.get(..len).unwrap_or_default(), &mut SendAncillaryBuffer::default())
    }

    fn send_packet(&self, bytes: &[u8], ancillary: &mut SendAncillaryBuffer<'_, '_, '_>) -> io::Result<bool> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        for _ in 0..sys::MAX_INTERRUPTIONS {
            match rustix::net::sendmsg(&self.fd, &[IoSlice::new(bytes)], ancillary, flags) {
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS) => return Ok(false),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Ends sending. The other side sees the end and can still close its side.
    pub(super) fn end_sending(&self) {
        // The call fails if the other side has closed already.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Write);
    }

    /// Receives without waiting. Descriptors that do not belong to a message are closed.
    pub(super) fn receive(&self) -> Received {
        // One byte more than any packet, to detect longer ones.
        let mut bytes = [0; MESSAGE_BYTES * USER_MESSAGES_PER_PACKET + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let mut result = rustix::net::recvmsg(&self.fd, &mut slices, &mut ancillary, flags);
        if matches!(result, Err(rustix::io::Errno::CONNRESET)) {
            // The other side has closed the link with messages of this side unread. Its own last messages come after
            // this error.
            result = rustix::net::recvmsg(&self.fd, &mut slices, &mut ancillary, flags);
        }
        let received = match result {
            Ok(received) => received,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Received::Nothing,
            Err(rustix::io::Errno::CONNRESET) => return Received::Closed,
            Err(_) => return Received::Broken("a message cannot be received"),
        };
        let mut descriptors = [None, None];
        let mut count = 0;
        for message in ancillary.drain() {
            let RecvAncillaryMessage::ScmRights(fds) = message else { continue };
            for fd in fds {
                if let Some(place) = descriptors.get_mut(count) {
                    *place = Some(fd);
                }
                count += 1;
            }
        }
        let bytes = bytes.get(..received.bytes).unwrap_or_default();
        if bytes.is_empty() {
            return Received::Closed;
        }
        if count == 0
            && let Some(messages) = decode_user_messages(bytes)
        {
            return Received::UserMessages(messages);
        }
        match Message::decode(bytes) {
            Some(message) if message.descriptors() == count => Received::Message(message, descriptors),
            Some(_) if received.flags.contains(ReturnFlags::CTRUNC) => {
                Received::Broken("this process has no descriptor left for the memory of the other side")
            }
            _ => Received::Broken("the other side sent an invalid message"),
        }
    }
}

/// `None` unless the packet consists of messages of the user.
fn decode_user_messages(packet: &[u8]) -> Option<Vec<UserMessage>> {
    if packet.len() > MESSAGE_BYTES * USER_MESSAGES_PER_PACKET {
        return None;
    }
    let messages = packet.chunks(MESSAGE_BYTES).map(|bytes| match Message::decode(bytes)? {
        Message::User(message) => Some(message),
        _ => None,
    });
    messages.collect()
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The socket on which this process accepts readers.
#[derive(Debug)]
pub(super) struct ListenSocket {
    fd: Descriptor,
    address: Address,
    trust: Trust,
}

/// Connections that may wait in the kernel to be accepted.
const BACKLOG: i32 = 64;

impl ListenSocket {
    /// # Errors
    /// The process or the system has too many descriptors.
    pub(super) fn open(trust: Trust) -> io::Result<Self> {
        let mut name = [0; 16];
        random::fill(&mut name)?;
        let address = Address(name);
        let fd = socket()?;
        rustix::net::bind(&fd, &address.to_unix()?)?;
        rustix::net::listen(&fd, BACKLOG)?;
        Ok(Self { fd: own(fd), address, trust })
    }

    pub(super) fn address(&self) -> Address {
        self.address
    }

    /// The next connection, if there is one. A connection of an untrusted user is closed and returned as an error.
    pub(super) fn accept(&self) -> io::Result<Option<Link>> {
        #[cfg(feature = "simulation")]
        crate::simulation::check_descriptors()?;
        match rustix::net::accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Link::new(fd, self.trust).map(Some),
            // The process has crashed: `end_link`.
            #[cfg(feature = "simulation")]
            Err(rustix::io::Errno::AGAIN)
                if crate::simulation::current().is_some() && event::is_readable(self.fd.as_raw_fd()) =>
            {
                Err(io::ErrorKind::NotConnected.into())
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(sys::in_operation("accept", &error.into())),
        }
    }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A socket of this process. A simulated machine closes the sockets of a process that crashes.
#[cfg(not(feature = "simulation"))]
type Descriptor = OwnedFd;
#[cfg(feature = "simulation")]
type Descriptor = std::sync::Arc<OwnedFd>;

#[cfg(not(feature = "simulation"))]
const fn own(fd: OwnedFd) -> Descriptor {
    fd
}

#[cfg(feature = "simulation")]
fn own(fd: OwnedFd) -> Descriptor {
    let fd = std::sync::Arc::new(fd);
    let _ = crate::simulation::with(|machine| machine.note_link(&fd));
    fd
}

fn socket() -> io::Result<OwnedFd> {
    #[cfg(feature = "simulation")]
    crate::simulation::check_descriptors()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Not by rustix, whose process ids are never zero: the kernel reports zero for a process that is not visible here.
fn credentials(fd: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: UNKNOWN_USER, gid: UNKNOWN_USER };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` is writable and `len` is its length.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    sys::check(result).map_err(|error| sys::in_operation("SO_PEERCRED", &error))?;
    Ok(Peer { process: credentials.pid, user: credentials.uid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sendmsg;

    fn pair() -> (Link, Link) {
        let socket = ListenSocket::open(Trust::SameUser).unwrap();
        let near = Link::connect(socket.address(), Trust::SameUser).unwrap();
        let far = socket.accept().unwrap().expect("it has connected");
        (near, far)
    }

    #[test]
    fn each_side_sees_the_credentials_of_its_peer() {
        let (near, far) = pair();
        let own = Peer { process: std::process::id() as i32, user: rustix::process::geteuid().as_raw() };
        assert_eq!((near.peer(), far.peer()), (own, own));
    }

    /// The system reports unread messages before the last ones of the other side.
    #[test]
    fn last_message_of_a_side_that_left_messages_unread_arrives() {
        let (near, far) = pair();
        assert!(near.send(&Message::Retired { segment: 1 }, &[]).unwrap());
        assert!(far.send(&Message::Leave, &[]).unwrap());
        drop(far);
        assert!(matches!(near.receive(), Received::Message(Message::Leave, _)));
        assert!(matches!(near.receive(), Received::Closed));
    }

    #[test]
    fn other_users_are_not_trusted_unless_all_are() {
        let own = rustix::process::geteuid().as_raw();
        let stranger = Peer { process: 1, user: own + 1 };
        assert_eq!(Trust::SameUser.check(stranger).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(Trust::AnyUser.check(stranger).is_ok());
        let unknown = Trust::SameUser.check(Peer { process: 1, user: UNKNOWN_USER }).unwrap_err();
        assert!(unknown.to_string().contains("unknown in this user namespace"), "{unknown}");
        assert!(Trust::SameUser.check(Peer { process: 0, user: own }).is_ok());
    }

    #[test]
    fn messages_and_their_descriptors_arrive() {
        let (near, far) = pair();
        assert!(matches!(far.receive(), Received::Nothing));
        let message = Message::Segment { segment: 7, len: 4096 };
        assert!(near.send(&message, &[far.as_fd()]).unwrap());
        match far.receive() {
            Received::Message(received, [Some(_), None]) => assert_eq!(received, message),
            other => panic!("{other:?}"),
        }
        drop(near);
        assert!(matches!(far.receive(), Received::Closed));
    }

    #[test]
    fn invalid_message_breaks_the_link() {
        let message = Message::Room.encode();
        for bytes in [&message[..60], &[0; 64][..], &[message.as_slice(), &[0]].concat()] {
            let (near, far) = pair();
            rustix::net::send(&near.fd, bytes, SendFlags::NOSIGNAL).unwrap();
            assert!(matches!(far.receive(), Received::Broken(_)), "{bytes:?}");
        }
        // Unexpected descriptors are closed: their other end sees that.
        let (near, far) = pair();
        let (kept, sent) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [sent.as_fd()];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&near.fd, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        drop(sent);
        assert!(matches!(far.receive(), Received::Broken(_)));
        assert_eq!(rustix::net::recv(&kept, &mut [0_u8; 1][..], RecvFlags::empty()).unwrap().1, 0);
    }

    #[test]
    fn user_messages_of_one_packet_arrive_together_and_in_order() {
        for count in [1, 2, USER_MESSAGES_PER_PACKET] {
            let (near, far) = pair();
            let messages: Vec<UserMessage> = (0..count as u64).map(|number| UserMessage([number; 6])).collect();
            assert!(near.send_user_messages(&messages).unwrap());
            match far.receive() {
                Received::UserMessages(received) => assert_eq!(received, messages),
                other => panic!("{other:?}"),
            }
            assert!(matches!(far.receive(), Received::Nothing));
        }
    }

    #[test]
    fn packet_of_other_messages_or_of_too_many_breaks_the_link() {
        let user = Message::User(UserMessage([1; 6])).encode();
        let room = Message::Room.encode();
        let packets = [
            [user, room].concat(),
            [room, room].concat(),
            [&user[..], &user[..60]].concat(),
            user.repeat(USER_MESSAGES_PER_PACKET + 1),
        ];
        for bytes in packets {
            let (near, far) = pair();
            rustix::net::send(&near.fd, &bytes, SendFlags::NOSIGNAL).unwrap();
            assert!(matches!(far.receive(), Received::Broken(_)), "{} bytes", bytes.len());
        }
    }

    #[test]
    fn full_link_refuses_a_message() {
        let (near, far) = pair();
        let sent = (0..1_000_000).find(|_| !near.send(&Message::Room, &[]).unwrap());
        assert!(sent.is_some_and(|count| count > 10));
        assert!(matches!(far.receive(), Received::Message(Message::Room, _)));
    }

    #[test]
    fn address_without_listener_is_an_error() {
        let error = Link::connect(Address([7; 16]), Trust::SameUser).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
