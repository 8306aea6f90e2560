//! Clock, locks, parked threads and the rules for user code, for every layer.

pub(in crate::driver) mod adaptive_spin;
pub(crate) mod clock;
pub(in crate::driver) mod deadline_cell;
pub(crate) mod endpoint_timers;
pub(in crate::driver) mod lead_balance;
pub(crate) mod parker;
pub(crate) mod sync;
pub(in crate::driver) mod system;
pub(crate) mod user_code;
pub(crate) mod weak_list;
pub(in crate::driver) mod writes;
