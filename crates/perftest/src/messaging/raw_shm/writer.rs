//! A writer to which the rendezvous thread admits readers while another thread writes.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::shm::{Gone, LoanError, Metadata, Overflow, ReaderId, Request, Slot, Writer, WriterConfig};

use super::party::Party;
use crate::clock;
use crate::error::Error;
use crate::messaging::WriteError;

/// A writer and its readers.
#[derive(Debug)]
pub(super) struct SharedWriter {
    state: Mutex<WriterState>,
    admitted: Condvar,
}

/// The state behind the lock.
#[derive(Debug)]
pub(super) struct WriterState {
    writer: Writer,
    parties: Vec<(ReaderId, Party)>,
    room_timeout: RoomTimeout,
}

/// How long a sample waits for room.
#[derive(Debug, Clone, Copy)]
pub(super) enum RoomTimeout {
    /// Not at all: the sample is dropped.
    None,
    /// The longest wait for room; then the partner counts as ended.
    Upto(Duration),
    /// The time has passed: no sample waits again until there has been room.
    Exhausted(Duration),
}

impl SharedWriter {
    pub(super) fn new(config: WriterConfig, room_timeout: RoomTimeout) -> Result<Self, Error> {
        let writer = Writer::new(config).map_err(|error| Error::Setup(format!("Cannot share memory: {error}")))?;
        let state = Mutex::new(WriterState { writer, parties: Vec::new(), room_timeout });
        Ok(Self { state, admitted: Condvar::new() })
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a reader. `watch` receives the link, to watch for its end.
    pub(super) fn admit(
        &self,
        party: Party,
        request: Request,
        overflow: Overflow,
        watch: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.lock();
        let id = state.writer.admit(request, overflow)?;
        state.parties.push((id, party));
        state.writer.descriptor(id).map_or(Ok(()), watch)?;
        drop(state);
        self.admitted.notify_all();
        Ok(())
    }

    /// Handles the end of a reader, which ends waits for it.
    pub(super) fn poll_readers(&self) {
        self.lock().writer.service();
    }

    /// Waits until `count` readers are admitted. Returns `false` at the timeout. Readers that ended before are
    /// forgotten.
    pub(super) fn wait_for_readers(&self, count: u32, timeout: Duration) -> bool {
        let end = clock::MonotonicNs::now().plus(timeout);
        let mut state = self.lock();
        loop {
            state.writer.service();
            if state.writer.readers().count() >= count as usize {
                // These readers belong to an earlier test.
                let _ = state.report_gone();
                return true;
            }
            let left = end.remaining();
            if left.is_zero() {
                return false;
            }
            state = self.admitted.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl WriterState {
    /// A slot for a sample of `len` bytes.
    #[inline]
    pub(super) fn loan(&mut self, len: usize) -> Result<Slot, WriteError> {
        match self.writer.loan(len) {
            Ok(slot) => Ok(slot),
            Err(LoanError::Exhausted { .. }) => self.wait_for_slot(len),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Publishes a sample to all readers. The end of a reader is returned once, after the others have received the
    /// sample.
    #[inline]
    pub(super) fn publish(&mut self, slot: Slot) -> Result<(), WriteError> {
        if let Err(refused) = self.writer.publish(slot, Metadata::default()) {
            self.wait_for_room(refused.slot)?;
        }
        self.room_timeout.restore();
        self.report_gone()
    }

    #[cold]
    fn wait_for_slot(&mut self, len: usize) -> Result<Slot, WriteError> {
        let deadline = self.room_timeout.deadline()?;
        loop {
            let is_there = self.writer.wait_for_slot(len, deadline).map_err(|error| failed(&error))?;
            match self.writer.loan(len) {
                Ok(slot) => return Ok(slot),
                Err(LoanError::Exhausted { .. }) if is_there && MonotonicNs::now() < deadline => {}
                Err(LoanError::Exhausted { .. }) => return Err(self.room_timeout.exhaust()),
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    #[cold]
    fn wait_for_room(&mut self, mut slot: Slot) -> Result<(), WriteError> {
        let deadline = self.room_timeout.deadline()?;
        loop {
            self.writer.wait_for_room(deadline).map_err(|error| failed(&error))?;
            match self.writer.publish(slot, Metadata::default()) {
                Ok(()) => return Ok(()),
                Err(_) if MonotonicNs::now() >= deadline => return Err(self.room_timeout.exhaust()),
                Err(refused) => slot = refused.slot,
            }
        }
    }

    fn report_gone(&mut self) -> Result<(), WriteError> {
        let mut result = Ok(());
        while let Some(gone) = self.writer.poll_gone() {
            let place = self.parties.iter().position(|(id, _)| *id == gone.reader);
            let party = place.map(|place| self.parties.swap_remove(place).1);
            let name = party.map_or_else(|| "A partner".into(), |party| party.to_string());
            let reason = match gone.reason {
                Gone::Ended | Gone::Died | Gone::Closed => "it has ended",
                Gone::Broken(what) => what,
            };
            result = Err(WriteError::PartnerGone(format!("{name} receives no more: {reason}.")));
        }
        result
    }
}

impl RoomTimeout {
    fn deadline(self) -> Result<MonotonicNs, WriteError> {
        match self {
            Self::None => Err(WriteError::WouldBlock),
            Self::Upto(time) => Ok(MonotonicNs::now().after(time)),
            Self::Exhausted(_) => Ok(MonotonicNs::now()),
        }
    }

    fn exhaust(&mut self) -> WriteError {
        if let Self::Upto(time) | Self::Exhausted(time) = *self {
            *self = Self::Exhausted(time);
            let text = format!(
                "A partner has not taken the samples that fill the shared memory for {} s (-partnerTimeout).",
                time.as_secs_f64()
            );
            return WriteError::PartnerGone(text);
        }
        WriteError::WouldBlock
    }

    #[inline]
    fn restore(&mut self) {
        if let Self::Exhausted(time) = *self {
            *self = Self::Upto(time);
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> WriteError {
    WriteError::Failed(format!("Cannot write to shared memory: {error}"))
}
