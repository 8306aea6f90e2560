//! The files of this layer, apart from [`clock`], [`kernel`] and [`system`], which are models.

#[path = "../../../../src/driver/base/adaptive_spin.rs"]
pub(in crate::driver) mod adaptive_spin;
pub(in crate::driver) mod clock;
#[path = "../../../../src/driver/base/deadline_cell.rs"]
pub(in crate::driver) mod deadline_cell;
#[path = "../../../../src/driver/base/endpoint_timers.rs"]
pub(in crate::driver) mod endpoint_timers;
pub(in crate::driver) mod kernel;
#[path = "../../../../src/driver/base/lead_balance.rs"]
pub(in crate::driver) mod lead_balance;
#[path = "../../../../src/driver/base/parker.rs"]
pub(in crate::driver) mod parker;
#[path = "../../../../src/driver/base/sync.rs"]
pub(in crate::driver) mod sync;
pub(in crate::driver) mod system;
#[path = "../../../../src/driver/base/user_code.rs"]
pub(in crate::driver) mod user_code;
