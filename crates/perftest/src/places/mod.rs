//! Places of the two ends of a measurement: this machine, a lab, or two hosts.

mod hosts;
mod isolated;
mod lab;
mod link;
mod options;
mod publisher;
mod sender;
mod ssh;
mod tether;
mod tools;

use std::sync::Arc;

pub use self::hosts::{HostOptions, Hosts, print_host_lines};
pub(crate) use self::isolated::{Datagrams, Isolated};
pub use self::lab::{INSIDE, Lab, LabOptions, enter};
pub(crate) use self::options::placed;
pub use self::publisher::run_publisher;
pub(crate) use self::sender::RemoteSender;
pub(crate) use self::tether::{STOP, Tether, tethered};
pub use self::tether::{TETHERED, tie};
use crate::campaign::placement::{Placement, ThisMachine};
use crate::control::Stop;
use crate::error::Error;

/// Places of the two ends of a measurement.
#[derive(Debug)]
pub enum Places {
    /// Both on this machine.
    Here(ThisMachine),
    /// The two hosts of a lab; this process is on the near one.
    Lab(Arc<Lab>),
    /// Two hosts; this process is elsewhere.
    Hosts(Box<Hosts>),
}

impl Places {
    /// Both ends on this machine, or on the given hosts.
    ///
    /// # Errors
    /// A host is not usable.
    pub fn of(options: &HostOptions, stop: &Arc<Stop>) -> Result<Self, Error> {
        Ok(match Hosts::connect(options, stop)? {
            Some(hosts) => Self::Hosts(Box::new(hosts)),
            None => Self::Here(ThisMachine),
        })
    }

    /// Starts processes at these places.
    pub fn placement(&self) -> &dyn Placement {
        match self {
            Self::Here(here) => here,
            Self::Lab(lab) => lab.as_ref(),
            Self::Hosts(hosts) => hosts.as_ref(),
        }
    }
}
