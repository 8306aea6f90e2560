//! The owner of participants, threads, timers and the reception. No other layer of the driver knows it.

mod answer_timer;
mod deferred_user_code;
pub(crate) mod domain;
mod jobs;
mod late_wait;
mod listener_threads;
mod polling_turns;
mod publishing;
mod shared_receiver;
mod spare_threads;
pub(crate) mod thread_panics;
mod wake_timer;
