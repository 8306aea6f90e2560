//! The protocol between publisher and subscriber: presence, start and end.

mod announcements;
mod sentinel;
mod stop;

pub use announcements::{AnnouncementBoard, Waited};
pub use sentinel::{CONTROL_KEY, ControlCounter, Partner, ProcessNumber, Sentinel};
pub use stop::{Stop, StopReason, watch_signals};
