//! Settings and results of simulations.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::network::{Faults, NetworkCounters, NodeId};

/// How a simulation behaves.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Everything random follows from it.
    pub seed: u64,
    /// The faults of the network.
    pub faults: Faults,
    /// The longest IP packet of the network, in bytes.
    pub mtu_bytes: u32,
    /// Virtual time after which the simulation counts as failed.
    pub time_max: Duration,
}

impl Default for Config {
    /// Seed 0, no faults, Ethernet, ten minutes.
    fn default() -> Self {
        let faults = Faults::NONE;
        Self { seed: 0, faults, mtu_bytes: 1500, time_max: Duration::from_secs(600) }
    }
}

/// The statistics of a simulation. Equal for equal seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// A hash of all datagrams: when each was sent, by which host, to which address, and its length.
    pub datagrams: u64,
    /// Choices of the scheduler.
    pub steps: u64,
    /// Virtual time at the end, in nanoseconds.
    pub end_ns: u64,
    /// The counters of the network.
    pub network: NetworkCounters,
}

/// The address of a host.
#[must_use]
pub fn address_of(host: NodeId) -> IpAddr {
    let [.., high, low] = host.0.to_be_bytes();
    Ipv4Addr::new(10, 0, high, low.wrapping_add(1)).into()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
