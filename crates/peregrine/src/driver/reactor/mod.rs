//! The owner of participants, threads, timers and the reception. No other layer of the driver knows it.

mod deferred_user_code;
pub(crate) mod domain;
mod polling_turns;
mod publishing;
mod shared_receiver;
mod wake_timer;
