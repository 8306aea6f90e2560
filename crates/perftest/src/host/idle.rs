//! Keeps idle cores awake.
//!
//! A core in a deep idle state takes tens of microseconds to wake, many times the cost of a datagram. While a process
//! holds `/dev/cpu_dma_latency` open with 0 written to it, Linux keeps every core out of these states.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// Whether this process keeps idle cores awake while this value lives.
#[derive(Debug)]
pub enum IdleStates {
    /// This process keeps idle cores awake.
    Disabled {
        /// Closing it allows idle states again.
        _device: File,
    },
    /// This process does not; the reason.
    Allowed(String),
}

impl IdleStates {
    /// Leaves idle states as they are, because the plan requests that.
    pub fn allowed_by_plan() -> Self {
        Self::Allowed("the plan says keep_awake = false".into())
    }

    /// Keeps idle cores awake if this process may.
    pub fn disable() -> Self {
        match Self::open() {
            Ok(device) => Self::Disabled { _device: device },
            Err(error) => Self::Allowed(format!("cannot hold {DEVICE} at 0: {error}")),
        }
    }

    fn open() -> io::Result<File> {
        let mut device = OpenOptions::new().write(true).open(DEVICE)?;
        device.write_all(&0_i32.to_ne_bytes())?;
        Ok(device)
    }
}

impl fmt::Display for IdleStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled { .. } => write!(f, "Idle cores are kept awake: {DEVICE} is held at 0."),
            Self::Allowed(reason) => {
                write!(f, "Idle cores may enter deep idle states, which lengthens latencies: {reason}.")
            }
        }
    }
}

/// Other processes that hold the device, as `name (pid)`, as far as this process may inspect them.
pub fn cpu_dma_latency_holders() -> Vec<String> {
    let own = std::process::id().to_string();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|process| {
            let pid = process.file_name().into_string().ok()?;
            if pid == own || !pid.bytes().all(|digit| digit.is_ascii_digit()) || !holds_device(&process.path()) {
                return None;
            }
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            Some(format!("{} ({pid})", name.trim()))
        })
        .collect()
}

fn holds_device(process: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors
        .flatten()
        .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target == Path::new(DEVICE)))
}
