//! The interface between a party and a transport.

use std::net::SocketAddr;
use std::time::Duration;

use peregrine_report::record::WireUse;

use crate::campaign::job::Channel;
use crate::campaign::types::Stamp;
use crate::clock::MonotonicNs;
use crate::error::Error;

/// Creates endpoints.
pub(super) trait Link {
    fn sender(&self, channel: Channel) -> Result<Box<dyn Sender>, Error>;

    fn receiver(&self, channel: Channel) -> Result<Box<dyn Receiver>, Error>;

    /// The traffic of its sockets so far, and the path of the samples.
    fn wire(&self) -> WireUse;

    /// Checks that no sample was copied, where the case requires that.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Sends samples of one channel to all of its receivers.
pub(super) trait Sender: Send {
    /// Waits until `receivers` are known. A transport without discovery uses `addresses`.
    fn join(&mut self, addresses: &[SocketAddr], receivers: u32, deadline: MonotonicNs) -> Result<(), Error>;

    /// Sends a sample with this stamp. Returns false if there was no room and the sample was dropped.
    fn send(&mut self, stamp: &Stamp) -> Result<bool, Error>;

    /// Waits until all reliable receivers have acknowledged all samples.
    fn finish(&mut self, limit: Duration) -> Result<(), Error>;

    /// Checks that all samples so far have taken the measured path, if there are several.
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Receives samples of one channel.
pub(super) trait Receiver: Send {
    /// The address at which it receives, if senders need it.
    fn address(&self) -> Option<SocketAddr>;

    /// Waits until `senders` are known.
    fn join(&mut self, senders: u32, deadline: MonotonicNs) -> Result<(), Error>;

    /// Waits for a sample for at most `limit`, and passes all available samples to `on_sample`: the stamp, and the time
    /// at which the application had the value.
    fn receive(&mut self, limit: Duration, on_sample: &mut dyn FnMut(Stamp, MonotonicNs)) -> Result<(), Error>;

    /// Sends samples of the first writer back through `echo`, before anything else is done with them; returns it when
    /// the receiver of the samples does that.
    fn send_back(&mut self, echo: Box<dyn Sender>) -> Option<Box<dyn Sender>> {
        Some(echo)
    }

    /// [`Sender::check`] of the echo sender that this receiver owns.
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Corrupt samples so far; `None` if payloads are not checked.
    fn corrupt(&self) -> Option<u64>;
}

/// The result of a thread; an error if the thread panicked.
pub(super) fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, Error>>) -> Result<T, Error> {
    thread.join().unwrap_or_else(|_| Err(Error::Transfer("a thread of this process has panicked".into())))
}
