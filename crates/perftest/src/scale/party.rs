//! A process of a row, as its starter sees it.

use std::time::Duration;

use super::part::PATIENCE;
use super::protocol::{Order, parse_answer};
use super::subject::Subject;
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::host::System;
use crate::places::Isolated;
use crate::process::Process;

/// Longest wait for an answer: that of an order, and some time for a busy machine.
const ANSWER_LIMIT: Duration = PATIENCE.saturating_add(Duration::from_secs(10));
/// Longest time from the end of its input to the end of a process, whose memory the kernel returns.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Longest line of an answer in bytes.
const MAX_ANSWER_LEN: u64 = 1024;

/// A started process.
#[derive(Debug)]
pub(super) struct Party<'a> {
    process: Process,
    stop: &'a Stop,
}

impl<'a> Party<'a> {
    /// Starts a process; `role` is for errors.
    pub(super) fn start(subject: &Subject, role: &str, host: &Isolated, stop: &'a Stop) -> Result<Self, Error> {
        let mut command = host.command(&subject.program);
        command.args(subject.words);
        let name = format!("{} ({role})", subject.label);
        Ok(Self { process: Process::start_bounded(name, command, MAX_ANSWER_LEN)?, stop })
    }

    /// Sends an order.
    pub(super) fn tell(&mut self, order: Order) -> Result<(), Error> {
        self.process.tell(&order.to_string())
    }

    /// Waits for the numbers of the next answer.
    pub(super) fn hear<const N: usize>(&mut self) -> Result<[u64; N], Error> {
        let line = self.process.hear(MonotonicNs::now().plus(ANSWER_LIMIT), self.stop)?;
        let failed = |reason: String| Error::Transfer(format!("{}: {reason}", self.process.name()));
        let numbers = parse_answer(&line).map_err(failed)?.map_err(failed)?;
        numbers.try_into().map_err(|_| failed(format!("'{line}' has not {N} numbers")))
    }

    /// Sends an order and waits for its answer.
    pub(super) fn ask<const N: usize>(&mut self, order: Order) -> Result<[u64; N], Error> {
        self.tell(order)?;
        self.hear()
    }

    /// Its anonymous memory, and its share of the shared memory that it has mapped, in bytes. Pages of files are not
    /// included: the kernel may discard them.
    pub(super) fn memory(&self) -> Result<u64, Error> {
        let file = format!("proc/{}/smaps_rollup", self.process.id());
        memory_of(&System::this().text(&file))
            .ok_or_else(|| Error::Setup(format!("/{file} has no Pss_Anon and Pss_Shmem: Linux 5.4 or newer is needed")))
    }

    /// Number of the process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }
}

/// Ends all of them at the same time.
///
/// # Errors
/// A process fails, or does not end by itself.
pub(super) fn end_all(mut parties: Vec<Party<'_>>) -> Result<(), Error> {
    parties.iter_mut().for_each(|party| party.process.close_input());
    let deadline = MonotonicNs::now().plus(END_LIMIT);
    parties.iter_mut().try_for_each(|party| party.process.finish_by(deadline))
}

/// From the text of `smaps_rollup`.
fn memory_of(text: &str) -> Option<u64> {
    let field = |name: &str| {
        let kib: u64 =
            text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    field("Pss_Anon:")?.checked_add(field("Pss_Shmem:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_anonymous_and_shared_memory() {
        let text = "00400000-7ffc [rollup]\nRss: 9000 kB\nPss: 5000 kB\nPss_Anon: 3000 kB\nPss_File: 1900 kB\n\
                    Pss_Shmem: 100 kB\n";
        assert_eq!(memory_of(text), Some(3_100 * 1024));
        assert_eq!(memory_of("Pss: 5000 kB\n"), None);
    }

    #[test]
    fn answers_of_a_process_are_numbers_or_its_reason() {
        const SCRIPT: &str = "read line; echo done 4 5; read line; echo error no memory; read line; echo done 1; \
                              read line; exit 3";
        let own = Subject::own(super::super::protocol::Transport::Udp).unwrap();
        let subject = Subject { program: "/bin/sh".into(), words: &["-c", SCRIPT], ..own };
        let stop = Stop::default();
        let mut party = Party::start(&subject, "readers", &Isolated::shared(), &stop).unwrap();
        assert_eq!(party.ask::<2>(Order::Write { samples: 1 }), Ok([4, 5]));
        let error = party.ask::<1>(Order::Acknowledge).unwrap_err().to_string();
        assert_eq!(error, "Peregrine UDP (readers): no memory");
        let error = party.ask::<2>(Order::Ready).unwrap_err().to_string();
        assert!(error.contains("'done 1' has not 2 numbers"), "{error}");
        assert!(party.memory().unwrap() > 0);
        party.tell(Order::Ready).unwrap();
        let error = end_all(vec![party]).unwrap_err().to_string();
        assert!(error.contains("status: 3"), "{error}");
    }
}
