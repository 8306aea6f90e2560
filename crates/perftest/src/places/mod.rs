//! Where the two ends of a measurement are: on this machine, in a lab, or on two hosts.

mod hosts;
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
pub use self::lab::{INSIDE, Lab, LabOptions, enter};
pub(crate) use self::options::placed;
pub use self::publisher::run_publisher;
pub(crate) use self::sender::RemoteSender;
pub(crate) use self::tether::{STOP, Tether, tethered};
pub use self::tether::{TETHERED, tie};
use crate::campaign::placement::{Placement, ThisMachine};
use crate::control::Stop;
use crate::error::Error;

/// Where the two ends of a measurement are.
#[derive(Debug)]
pub enum Places {
    /// Both on this machine.
    Here(ThisMachine),
    /// On the two hosts of a lab, of which this process is on the near one.
    Lab(Arc<Lab>),
    /// On two hosts, with this process somewhere else.
    Hosts(Box<Hosts>),
}

impl Places {
    /// Both ends on this machine, or on the hosts that are asked for.
    ///
    /// # Errors
    /// A host cannot be had.
    pub fn of(options: &HostOptions, stop: &Arc<Stop>) -> Result<Self, Error> {
        Ok(match Hosts::connect(options, stop)? {
            Some(hosts) => Self::Hosts(Box::new(hosts)),
            None => Self::Here(ThisMachine),
        })
    }

    /// How processes are started there.
    pub fn placement(&self) -> &dyn Placement {
        match self {
            Self::Here(here) => here,
            Self::Lab(lab) => lab.as_ref(),
            Self::Hosts(hosts) => hosts.as_ref(),
        }
    }
}
