//! Receives samples in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::shm::{Gone, Interrupt, Reader, ReaderConfig, TakeError, Wake, WriterId};

use super::party::Party;
use super::rendezvous::{Inbox, Line, Rendezvous, Ticket};
use super::traffic::Count;
use crate::error::Error;
use crate::messaging::{Sample, SampleReader, Topic};
use crate::plan::{TestPlan, ThreadPlan, Wait};
use crate::terminal::message;
use crate::threads::{self, ThreadKind};

/// Slots that are read before messages of writers are handled.
const MAX_AT_ONCE: usize = 64;

/// Receives the samples of one topic.
#[derive(Debug)]
pub struct RawShmReader {
    reader: Reader,
    inbox: Arc<Inbox>,
    line: Line,
    joined: Vec<(WriterId, Ticket, Party)>,
    /// The writer of this test that ended last.
    ended: Option<Party>,
    topic: Topic,
    /// Duration of spinning before sleeping.
    spin: Duration,
    threads: ThreadPlan,
    received: Count,
}

/// A running receive thread.
#[derive(Debug)]
pub struct RawShmListening {
    closing: Arc<AtomicBool>,
    interrupt: Interrupt,
    thread: Option<JoinHandle<()>>,
}

impl RawShmReader {
    pub(super) fn open(topic: Topic, plan: &TestPlan, rendezvous: &Rendezvous, received: Count) -> Result<Self, Error> {
        // Each writer bounds its memory itself.
        let config = ReaderConfig { max_mapped_bytes: usize::MAX, ..ReaderConfig::default() };
        let reader = Reader::new(config).map_err(|error| Error::Setup(format!("Cannot share memory: {error}")))?;
        let inbox = Inbox::new(reader.interrupt());
        rendezvous.add_reader(topic, reader.connector(), &inbox);
        let spin = match plan.receive.wait {
            Wait::Block => Duration::ZERO,
            Wait::Spin(time) => time,
            Wait::Poll => Duration::MAX,
        };
        Ok(Self {
            reader,
            inbox,
            line: rendezvous.line(),
            joined: Vec::new(),
            ended: None,
            topic,
            spin,
            threads: plan.threads.clone(),
            received,
        })
    }

    /// Adds new writers and removes ended ones.
    fn poll_writers(&mut self) {
        for (ticket, party, connection) in self.inbox.take() {
            match self.reader.add(connection) {
                Ok(writer) => self.joined.push((writer, ticket, party)),
                Err(error) => message(format_args!("cannot write to {party}: {error}")),
            }
        }
        self.reader.service();
    }

    #[inline]
    fn note_gone(&mut self) {
        while let Some(gone) = self.reader.poll_gone() {
            let Some(place) = self.joined.iter().position(|(writer, ..)| *writer == gone.writer) else { continue };
            let (_, ticket, party) = self.joined.swap_remove(place);
            if let Gone::Broken(what) = gone.reason {
                message(format_args!("the input of {party} has failed: {what}"));
            }
            self.line.report_lost(ticket);
            // A writer that ended before any sample arrived may belong to an earlier test.
            if self.received.get() > 0 {
                self.ended = Some(party);
            }
        }
    }

    /// Delivers the available samples and returns their number.
    #[inline]
    fn deliver(&mut self, on_sample: &mut impl FnMut(&Sample<'_>)) -> Result<usize, TakeError> {
        let (mut count, mut slots) = (0, 0);
        while slots < MAX_AT_ONCE
            && let Some(slot) = self.reader.take()?
        {
            count += Sample::each(&slot, &mut *on_sample);
            slots += 1;
        }
        self.received.add(slots as u64);
        self.note_gone();
        Ok(count)
    }

    fn run(mut self, closing: &AtomicBool, mut on_sample: impl FnMut(&Sample<'_>)) {
        while !closing.load(Ordering::Acquire) {
            match self.reader.wait(self.spin, None) {
                Wake::Ready => {}
                Wake::Interrupted => self.poll_writers(),
                Wake::TimedOut => continue,
            }
            if let Err(error) = self.deliver(&mut on_sample) {
                return message(format_args!("Receiving on {} has ended: {error}", self.topic));
            }
        }
    }
}

impl SampleReader for RawShmReader {
    type Listening = RawShmListening;

    fn wait_for_writers(&mut self, count: u32, timeout: Duration) -> Result<bool, Error> {
        Ok(self.inbox.wait_for(count, timeout))
    }

    fn listen<F>(self, on_sample: F) -> Result<RawShmListening, Error>
    where
        F: FnMut(&Sample<'_>) + Send + 'static,
    {
        let closing = Arc::new(AtomicBool::new(false));
        let interrupt = self.reader.interrupt();
        let (applied, is_applied) = std::sync::mpsc::sync_channel(1);
        let run = {
            let closing = Arc::clone(&closing);
            move || {
                let result = threads::apply_to_current_thread(&self.threads, ThreadKind::Receive);
                let ready = result.is_ok();
                let _ = applied.send(result);
                if ready {
                    self.run(&closing, on_sample);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("receive".into())
            .spawn(run)
            .map_err(|error| Error::Setup(format!("Cannot start a receive thread: {error}")))?;
        let listening = RawShmListening { closing, interrupt, thread: Some(thread) };
        match is_applied.recv() {
            Ok(Ok(())) => Ok(listening),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Setup("A receive thread ended before it began".into())),
        }
    }

    fn receive<F>(&mut self, timeout: Duration, mut on_sample: F) -> Result<usize, Error>
    where
        F: FnMut(&Sample<'_>),
    {
        let deadline = MonotonicNs::now().after(timeout);
        loop {
            // All partners have ended.
            if self.joined.is_empty()
                && let Some(party) = self.ended.take()
            {
                return Err(Error::Partner(format!("{party} has ended before the end of the test.")));
            }
            match self.reader.wait(self.spin, Some(deadline)) {
                Wake::Ready => {}
                Wake::Interrupted => self.poll_writers(),
                Wake::TimedOut => return Ok(0),
            }
            let count = self.deliver(&mut on_sample).map_err(|error| Error::Transfer(error.to_string()))?;
            if count > 0 {
                return Ok(count);
            }
        }
    }
}

impl Drop for RawShmListening {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        self.interrupt.interrupt();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
