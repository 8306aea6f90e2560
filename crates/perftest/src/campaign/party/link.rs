//! What a party needs of whatever carries the samples.

use std::net::SocketAddr;
use std::time::Duration;

use peregrine_report::record::WireUse;

use crate::campaign::job::Channel;
use crate::campaign::types::Stamp;
use crate::clock::MonotonicNs;
use crate::error::Error;

/// Makes endpoints.
pub(super) trait Link {
    fn sender(&self, channel: Channel) -> Result<Box<dyn Sender>, Error>;

    fn receiver(&self, channel: Channel) -> Result<Box<dyn Receiver>, Error>;

    /// What its sockets have carried so far, and the way samples go.
    fn wire(&self) -> WireUse;

    /// That nothing was copied, where that is measured.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Sends samples of one channel to all who receive them.
pub(super) trait Sender: Send {
    /// Waits until so many receivers are known. Their addresses are told to whoever cannot find them by itself.
    fn join(&mut self, addresses: &[SocketAddr], receivers: u32, deadline: MonotonicNs) -> Result<(), Error>;

    /// Sends a sample with this stamp; false when it found no room and was dropped.
    fn send(&mut self, stamp: &Stamp) -> Result<bool, Error>;

    /// Waits until everything has been acknowledged by those who do so.
    fn settle(&mut self, limit: Duration) -> Result<(), Error>;

    /// That all samples so far have gone the way that is measured, where there are several.
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Receives samples of one channel.
pub(super) trait Receiver: Send {
    /// Where it receives, when somebody has to be told.
    fn address(&self) -> Option<SocketAddr>;

    /// Waits until so many senders are known.
    fn join(&mut self, senders: u32, deadline: MonotonicNs) -> Result<(), Error>;

    /// Waits so long at most until there is a sample, and shows everything that is there: the stamp, and when the value was
    /// in the hands of the application.
    fn receive(&mut self, limit: Duration, on_sample: &mut dyn FnMut(Stamp, MonotonicNs)) -> Result<(), Error>;

    /// Sends samples of the first writer back through `echo`, before anything else is done with them; returns it when that is the business of
    /// whoever gets the samples.
    fn send_back(&mut self, echo: Box<dyn Sender>) -> Option<Box<dyn Sender>> {
        Some(echo)
    }

    /// [`Sender::check`] of the echo that it took.
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Samples so far that were not what had been sent; `None` when nobody looks.
    fn corrupt(&self) -> Option<u64>;
}

/// The result of a thread; an error where it panicked.
pub(super) fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, Error>>) -> Result<T, Error> {
    thread.join().unwrap_or_else(|_| Err(Error::Transfer("a thread of this process has panicked".into())))
}
