//! The places at which the processes of a case run.
//!
//! A process of a case is this program with other arguments. It reads orders from its standard input, writes answers to
//! its standard output, and ends when its input ends. So a place needs only a command that runs the program there and
//! connects its streams: the program itself, `nsenter` or `ssh`.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use peregrine_report::record::Line;

use crate::error::Error;
use crate::host::IdleStates;
use crate::host_report::host_lines;
use crate::threads::{allowed_cores, two_cores};

/// An end of the measured path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The place of publishers, and of all cases that need only one host.
    Near,
    /// The place of subscribers when there are two hosts.
    Far,
}

/// The places of the two ends.
pub trait Placement {
    /// A short description of the places for the record, such as `one machine`.
    fn description(&self) -> String;

    /// A command that runs the same version of this program there with these arguments. The caller sets its three
    /// streams. They must reach the program, and the program must end soon after its input has ended or the command was
    /// killed.
    ///
    /// # Errors
    /// The place cannot be used; the message names it and the remedy.
    fn command(&self, place: Place, words: &[String]) -> Result<Command, Error>;

    /// The address by which the other place reaches this one; `None` if there is no other place.
    fn address(&self, place: Place) -> Option<IpAddr>;

    /// Why the programs of peers cannot run at the near place; `None` if this process may start them there.
    fn cannot_run_peers(&self) -> Option<&'static str> {
        None
    }

    /// Facts of the publishers' host, and problems of the hosts that distort measurements; the latter are also printed.
    ///
    /// # Errors
    /// A host does not report its facts.
    fn host_lines(&self) -> Result<Vec<Line>, Error> {
        Ok(host_lines())
    }

    /// Keeps idle cores awake at both places while the value lives.
    fn keep_awake(&self) -> IdleStates {
        IdleStates::disable()
    }

    /// One core for a publisher and one for its subscriber, if both run on one machine with two cores.
    fn two_cores(&self) -> Option<(usize, usize)> {
        two_cores(&allowed_cores())
    }
}

/// This machine, without a far host.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Placement for ThisMachine {
    fn description(&self) -> String {
        "one machine".into()
    }

    fn command(&self, _: Place, words: &[String]) -> Result<Command, Error> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Setup(format!("Cannot find the file of this program: {error}")))?;
        let mut command = Command::new(program);
        command.args(words);
        Ok(command)
    }

    fn address(&self, place: Place) -> Option<IpAddr> {
        (place == Place::Near).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_placement_has_no_far_end() {
        assert_eq!(ThisMachine.address(Place::Near), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(ThisMachine.address(Place::Far), None);
        let command = ThisMachine.command(Place::Near, &["respond".into()]).unwrap();
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["respond"]);
    }
}
