//! Calls that run one after the other.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::driver::base::sync::lock_leaf;
use crate::driver::base::user_code::UserCode;
use crate::driver::host::listener_gate::{AfterRun, ListenerGate};
use crate::driver::host::listener_queue::RunListener;
use crate::status::StatusMask;

/// An entry of the listener queue with a list of calls.
#[derive(Default)]
pub(super) struct Lane {
    gate: ListenerGate,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: VecDeque<UserCode>,
    is_running: bool,
}

impl Lane {
    /// Adds a call, or returns it if the lane has `max` of them.
    pub(super) fn add(&self, code: UserCode, max: usize) -> Result<(), UserCode> {
        let mut state = lock_leaf(&self.state);
        if state.calls.len() >= max {
            return Err(code);
        }
        state.calls.push_back(code);
        debug_assert!(state.calls.len() <= max);
        Ok(())
    }

    /// Marks the lane, which has new calls, as queued. Returns whether the caller has to queue it.
    pub(super) fn set_queued(&self) -> bool {
        self.gate.add(StatusMask::ALL) && self.gate.set_queued()
    }

    /// The number of calls that wait.
    pub(super) fn len(&self) -> usize {
        lock_leaf(&self.state).calls.len()
    }

    /// Whether the lane has no calls, and runs none.
    pub(super) fn is_idle(&self) -> bool {
        let state = lock_leaf(&self.state);
        state.calls.is_empty() && !state.is_running
    }

    /// The calls that wait.
    pub(super) fn take_all(&self) -> VecDeque<UserCode> {
        std::mem::take(&mut lock_leaf(&self.state).calls)
    }

    /// Runs the calls that wait now. Later ones wait until other entries have had their turn.
    fn run_waiting(&self) {
        for _ in 0..self.len() {
            let mut state = lock_leaf(&self.state);
            let next = state.calls.pop_front();
            state.is_running = true;
            drop(state);
            next.into_iter().for_each(UserCode::run);
        }
        lock_leaf(&self.state).is_running = false;
    }
}

impl RunListener for Lane {
    fn gate(&self) -> &ListenerGate {
        &self.gate
    }

    fn run_listener(&self) -> AfterRun {
        self.gate.run(|_| self.run_waiting())
    }
}
