//! Shared memory between processes of one host: the writer encodes a sample once, and each reader reads it in place.
//!
//! ```
//! use peregrine_transport::shm::{
//!     Listener, Metadata, Overflow, Reader, ReaderConfig, Trust, Writer, WriterConfig, WriterKey,
//! };
//!
//! // In the writer's process:
//! let mut listener = Listener::new(Trust::SameUser)?;
//! let mut writer = Writer::new(WriterConfig::default())?;
//! // In the reader's process, which learned the address by discovery:
//! let mut reader = Reader::new(ReaderConfig::default())?;
//! let mut connecting = reader.connect(listener.address(), WriterKey::default())?;
//!
//! let request = listener.accept()?.expect("a reader has connected");
//! writer.admit(request, Overflow::Block)?;
//! let connection = connecting.poll()?.expect("the writer has answered");
//! reader.add(connection)?;
//!
//! let mut slot = writer.loan(5)?;
//! slot.copy_from_slice(b"hello");
//! writer.publish(slot, Metadata([1, 0, 0, 0, 0]))?;
//!
//! let sample = reader.take()?.expect("a sample was published");
//! assert_eq!((&*sample, sample.metadata().0[0]), (&b"hello"[..], 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | item | purpose |
//! |---|---|
//! | [`Listener`] | accepts connections of reader processes; one for each process |
//! | [`Writer`] | owns the slots for samples, and one channel to each reader process |
//! | [`HostIdentity`], [`NotColocated`] | whether two processes can share memory |
//! | [`Reader`] | the channels from all writers, on which one thread waits at a time; one for each process |
//! | [`Follower`], [`FollowerWatch`] | the thread that takes when no other thread of its process does, and how these take turns |
//! | [`TakeLock`], [`Leading`] | the lock of a reader whose threads take turns |
//! | [`Interrupt`], [`Commands`] | how other threads of the reader's process end the wait of the taking thread and send it commands |
//! | [`SlotLender`] | loans the next slot without the writer's lock |
//! | [`UserMessage`] | a message between the users of the two ends of a channel |
//! | [`Slot`], [`SharedSlot`], [`Sample`] | a sample to be written, one that the writer's side keeps, one that a reader reads |
//!
//! The memory has no name in a file system. The writer passes it by descriptor over a socket, which closes when its
//! process ends in any way; the kernel frees the memory when the last process unmaps it. Each page is written by one
//! process and mapped read-only by the others. Each side checks every value that a peer wrote; a peer that breaks the
//! protocol damages only its own samples.
//!
//! Requires Linux 5.16. An older kernel cannot wait for several futexes, and [`Reader::new`] returns an error.

// The loom models use only the ring, the return queue, the slot cache, the doorbells, the turns and the commands.
#![cfg_attr(all(loom, test), allow(dead_code))]

#[cfg(not(all(loom, test)))]
mod channel_end;
#[cfg(not(all(loom, test)))]
mod colocation;
mod commands;
mod corrupt;
mod doorbell;
#[cfg(not(all(loom, test)))]
mod error;
mod futex;
mod layout;
#[cfg(not(all(loom, test)))]
mod link;
#[cfg(not(all(loom, test)))]
mod listener;
#[cfg(not(all(loom, test)))]
mod memory;
#[cfg(not(all(loom, test)))]
mod message;
#[cfg(all(loom, test))]
mod models;
mod page;
#[cfg(not(all(loom, test)))]
mod pool;
mod prefetch;
#[cfg(not(all(loom, test)))]
mod reader;
#[cfg(not(all(loom, test)))]
mod retained_slot;
mod return_queue;
mod ring;
#[cfg(not(all(loom, test)))]
mod sample;
#[cfg(not(all(loom, test)))]
mod segment;
#[cfg(not(all(loom, test)))]
mod slot;
mod slot_cache;
#[cfg(not(all(loom, test)))]
mod slot_lender;
mod sync;
mod take_lock;
mod turns;
mod wake;
#[cfg(not(all(loom, test)))]
mod writer;
#[cfg(not(all(loom, test)))]
mod writer_channel;

pub use commands::{Commands, FOLLOW_UPS_MAX, TakenCommands};
pub use ring::{Descriptor, Metadata, Overflow, SLOT_ALIGN};
pub use take_lock::{Leading, Take, TakeLock};
pub use turns::{Follower, Turns, Wake};
pub use wake::{FollowerWatch, Interrupt};

#[cfg(not(all(loom, test)))]
pub use {
    channel_end::{Gone, ReaderGone, ReaderId, WriterGone, WriterId},
    colocation::{HostIdentity, Namespaces, NotColocated},
    error::{ConnectError, LoanError, PublishError, TakeError},
    link::{Address, Peer, Trust},
    listener::{Listener, Request},
    message::{MESSAGE_BYTES, Message, ReaderKey, Refusal, USER_WORDS, UserMessage, WriterKey},
    reader::{
        AckHandle, Connecting, Connection, Connector, InPlace, Reader, ReaderConfig, ReaderStatistics, TooManyWriters,
    },
    retained_slot::{RetainedSlot, SpentSegment},
    sample::Sample,
    slot::{SharedSlot, Slot, TooLong},
    slot_lender::SlotLender,
    writer::{Writer, WriterConfig, WriterStatistics},
};
