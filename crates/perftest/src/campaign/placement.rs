//! Where the processes of a case run.
//!
//! A process of a case is this program with other words. It is told what to do by lines on its standard input, answers by
//! lines on its standard output, and ends when its input ends. So a place is known by nothing but a command that runs the
//! program there and passes its streams on, be it the program itself, `nsenter` or `ssh`.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use peregrine_report::record::Line;

use crate::error::Error;
use crate::host::IdleStates;
use crate::host_report::host_lines;
use crate::threads::{allowed_cores, two_cores};

/// An end of the path that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Where publishers run, and everything that needs one host only.
    Near,
    /// Where the subscribers of two hosts run.
    Far,
}

/// Where the two ends are.
pub trait Placement {
    /// The places in a few words for readers of the record, such as `one machine`.
    fn description(&self) -> String;

    /// A command that runs this version of this program with these words there. Whoever starts it sets its three streams.
    /// They must reach the program, and the program must be gone soon after its input has ended or the command was killed.
    ///
    /// # Errors
    /// The place cannot be had; the message names it and says what to do.
    fn command(&self, place: Place, words: &[String]) -> Result<Command, Error>;

    /// The address by which the other place reaches this one; `None` when there is no such place.
    fn address(&self, place: Place) -> Option<IpAddr>;

    /// Why the programs of peers cannot run at the near place; `None` when this process may start them there.
    fn cannot_run_peers(&self) -> Option<&'static str> {
        None
    }

    /// The facts of the host where publishers run, and what about the hosts lowers the worth of the numbers, told and kept.
    ///
    /// # Errors
    /// A host does not tell about itself.
    fn host_lines(&self) -> Result<Vec<Line>, Error> {
        Ok(host_lines())
    }

    /// Keeps idle cores awake where the processes run, for as long as the value lives.
    fn keep_awake(&self) -> IdleStates {
        IdleStates::disable()
    }

    /// A core for a publisher and one for its subscriber, where both run on one machine that has two.
    fn two_cores(&self) -> Option<(usize, usize)> {
        two_cores(&allowed_cores())
    }
}

/// This machine, which has no far end.
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
    fn this_machine_has_no_far_end() {
        assert_eq!(ThisMachine.address(Place::Near), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(ThisMachine.address(Place::Far), None);
        let command = ThisMachine.command(Place::Near, &["respond".into()]).unwrap();
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["respond"]);
    }
}
