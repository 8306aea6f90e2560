//! The thread that receives when `-waitStrategy poll` leaves DDS without threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use peregrine::DomainParticipant;

use crate::error::Error;
use crate::plan::ThreadPlan;
use crate::terminal::message;
use crate::threads::{self, ThreadKind};

/// Longest sleep in the kernel of a poller that need not be fast; arriving data wakes it.
const NAP: Duration = Duration::from_millis(5);

/// Receives until dropped. Pauses while another thread polls, such as the send loop of a latency test.
#[derive(Debug)]
pub(crate) struct Poller {
    busy: bool,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    closing: AtomicBool,
    /// Polls of other threads.
    others: AtomicU64,
}

impl Poller {
    /// `busy`: never sleeps. For processes whose other threads have little work.
    pub(crate) fn start(participant: &DomainParticipant, plan: &ThreadPlan, busy: bool) -> Result<Self, Error> {
        let state = Arc::<State>::default();
        let (participant, plan, shared) = (participant.clone(), plan.clone(), Arc::clone(&state));
        let run = move || {
            if let Err(error) = threads::apply_to_current_thread(&plan, ThreadKind::Receive) {
                message(&error);
            }
            let mut others = 0;
            while !shared.closing.load(Ordering::Acquire) {
                let others_now = shared.others.load(Ordering::Relaxed);
                if others_now == others {
                    participant.poll(if busy { Duration::ZERO } else { NAP });
                } else {
                    others = others_now;
                    std::thread::sleep(NAP);
                }
            }
        };
        let thread = std::thread::Builder::new().name("poll".into()).spawn(run);
        let thread = thread.map_err(|error| Error::Setup(format!("Cannot start a receive thread: {error}")))?;
        Ok(Self { busy, state, thread: Some(thread) })
    }

    /// Whether it never sleeps while no other thread polls.
    pub(crate) const fn is_busy(&self) -> bool {
        self.busy
    }

    /// Records that another thread polls.
    pub(crate) fn note_other(&self) {
        // One thread at a time writes; a lost count would be harmless.
        self.state.others.store(self.state.others.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.state.closing.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
