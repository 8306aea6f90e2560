//! The files of the driver, by their names there, apart from [`clock`] and [`system`], which are models.

#[path = "../../../src/driver/adaptive_spin.rs"]
mod adaptive_spin;
mod clock;
#[path = "../../../src/driver/deadline_cell.rs"]
mod deadline_cell;
mod kernel;
#[path = "../../../src/driver/listener_gate.rs"]
mod listener_gate;
#[path = "../../../src/driver/listener_queue.rs"]
mod listener_queue;
#[path = "../../../src/driver/parker.rs"]
mod parker;
#[path = "../../../src/driver/polling_turns.rs"]
mod polling_turns;
mod properties;
#[path = "../../../src/driver/publishing.rs"]
mod publishing;
#[path = "../../../src/driver/send_limit.rs"]
mod send_limit;
#[path = "../../../src/driver/send_state.rs"]
mod send_state;
#[path = "../../../src/driver/send_turns.rs"]
mod send_turns;
#[path = "../../../src/driver/shared_receiver.rs"]
mod shared_receiver;
mod shm;
#[path = "../../../src/driver/sync.rs"]
mod sync;
mod system;
#[path = "../../../src/driver/user_code.rs"]
mod user_code;
#[path = "../../../src/driver/waiting.rs"]
mod waiting;
#[path = "../../../src/driver/wake_timer.rs"]
mod wake_timer;
#[path = "../../../src/driver/wakers.rs"]
mod wakers;
