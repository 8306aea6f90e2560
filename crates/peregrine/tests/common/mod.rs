//! Helpers of the tests of the DCPS API.
#![allow(dead_code, unreachable_pub, reason = "each test binary is a crate of its own and uses a part of it")]

#[cfg(target_os = "linux")]
pub mod holdings;
pub mod sets_on_drop;
pub mod stalls;

use std::path::Path;
use std::time::{Duration, Instant};

use peregrine::{DdsType, DomainConfig, DomainParticipant, InterfaceSelection, WaitStrategy};

/// The longest wait for an expected event.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The highest domain of a test: the ports of higher domains overlap with ephemeral ports.
pub const HIGHEST_DOMAIN: u32 = 101;

/// The time for which a test observes that an event does not occur.
pub const GLANCE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
pub struct Reading {
    #[dds(key)]
    pub id: u32,
    pub value: u32,
}

impl Reading {
    pub const fn new(id: u32, value: u32) -> Self {
        Self { id, value }
    }
}

/// A key that does not fit into a key hash.
#[derive(Clone, Debug, PartialEq, DdsType)]
pub struct Named {
    #[dds(key)]
    pub name: String,
    pub value: u64,
}

/// A block of bytes. Each byte depends on the number of the sample and its own position.
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
pub struct Block {
    pub number: u64,
    pub octets: Vec<u8>,
}

impl Block {
    pub fn new(number: u64, len: usize) -> Self {
        Self { number, octets: (0..len).map(|at| (at as u64 * 31 + number) as u8).collect() }
    }
}

/// A configuration that uses real sockets, as between processes.
pub fn config() -> DomainConfig {
    let mut config = DomainConfig::default();
    config.same_process = false;
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    config
}

pub fn polled() -> DomainConfig {
    let mut config = config();
    config.wait = WaitStrategy::Poll;
    config
}

pub fn participant(domain: u32) -> DomainParticipant {
    assert!(domain <= HIGHEST_DOMAIN, "{domain}");
    DomainParticipant::builder(domain).config(config()).build().unwrap()
}

/// Polls until `happened` returns `true`, for events without a notification.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Whether a thread of this process, given by its directory below `/proc`, sleeps.
pub fn is_asleep(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(thread).join("stat")).unwrap_or_default();
    // The name before the state may contain spaces.
    stat.rsplit_once(") ").is_some_and(|(_, after)| after.starts_with('S'))
}
