//! A thread that polls a participant without internal threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use peregrine::DomainParticipant;

/// The longest delay until the polling thread ends.
const TURN: Duration = Duration::from_millis(20);

/// Polls until it is dropped.
pub(crate) struct Polling {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Polling {
    pub(crate) fn start(participant: &DomainParticipant) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (participant, ends) = (participant.clone(), Arc::clone(&is_over));
        let poll = move || {
            while !ends.load(Ordering::Relaxed) {
                participant.poll(TURN);
            }
        };
        Self { is_over, thread: Some(thread::spawn(poll)) }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the thread that polls has panicked");
        }
    }
}
