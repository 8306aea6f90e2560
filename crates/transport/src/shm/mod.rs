//! Samples handed to other processes of the host in place: written once by the writer, read where they are.
//!
//! ```
//! use peregrine_transport::shm::{
//!     Listener, Metadata, Overflow, Reader, ReaderConfig, Trust, Writer, WriterConfig, WriterKey,
//! };
//!
//! // In the process of the writer:
//! let mut listener = Listener::new(Trust::SameUser)?;
//! let mut writer = Writer::new(WriterConfig::default())?;
//! // In that of the reader, which has got the address by discovery:
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
//! let sample = reader.take()?.expect("it was published");
//! assert_eq!((&*sample, sample.metadata().0[0]), (&b"hello"[..], 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | [`Listener`] | where readers of other processes come in: one for a process |
//! | [`Writer`] | slots to write samples in, and a channel to each reader process |
//! | [`HostIdentity`], [`NotColocated`] | whether two processes are where memory can be shared at all |
//! | [`Reader`] | the channels of all writers, which one thread waits for: one for a process |
//! | [`Interrupt`], [`Commands`] | what other threads of its process tell the one that takes, and end its wait with |
//! | [`SlotLender`] | a slot at hand without the lock of its writer |
//! | [`Slot`], [`SharedSlot`], [`Sample`] | a sample to be written, to be kept by the writer, to be read |
//!
//! Nothing here has a name in a file system: memory is passed by descriptor over a socket that closes when its process
//! ends, in whatever way, and is gone when nobody maps it. Each page is written by one process and mapped read-only by the
//! others. What a process says is checked; what it breaks is its own.
//!
//! It takes Linux 5.16; an older one has no way to wait for several futexes, and [`Reader::new`] says so.

// The models use the ring, the ways back of slots, what wakes and what is told, alone.
#![cfg_attr(all(loom, test), allow(dead_code))]

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
mod slot;
mod slot_cache;
#[cfg(not(all(loom, test)))]
mod slot_lender;
mod sync;
mod wake;
#[cfg(not(all(loom, test)))]
mod writer;

pub use commands::{Commands, FOLLOW_UPS_MAX, TakenCommands};
pub use ring::{Descriptor, Metadata, Overflow, SLOT_ALIGN};
pub use wake::Interrupt;

#[cfg(not(all(loom, test)))]
pub use {
    colocation::{HostIdentity, NotColocated},
    error::{LoanError, PublishError, TakeError},
    link::{Address, Peer, Trust},
    listener::{Listener, Request},
    message::{MESSAGE_BYTES, Message, ReaderKey, Refusal, WriterKey},
    reader::{
        AckHandle, ConnectError, Connecting, Connection, Connector, InPlace, Reader, ReaderConfig, ReaderStatistics,
        TooManyProcesses, Wake, WriterGone, WriterId,
    },
    retained_slot::{RetainedSlot, SpentSegment},
    sample::Sample,
    slot::{SharedSlot, Slot, TooLong},
    slot_lender::SlotLender,
    writer::{Gone, ReaderGone, ReaderId, Writer, WriterConfig, WriterStatistics},
};
