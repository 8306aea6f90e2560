//! Runs one test at one size with two processes of a peer.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::protocol::{About, Answer, MAX_ANSWER_LEN, PeerResult, Role, Setup};
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::process::Process;

/// Longest discovery, and longest time from the end of a test to its result. A process times out a little earlier.
const PATIENCE: Duration = Duration::from_secs(15);

/// Time from the start to the first sample of a schedule.
const BEFORE_SCHEDULE: Duration = Duration::from_millis(20);

/// Result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The test ran.
    Measured {
        /// Result of the side that sends first.
        initiator: PeerResult,
        /// Result of the side that receives first.
        responder: PeerResult,
    },
    /// The peer cannot run the test; the reason.
    Unsupported(String),
}

/// Runs the test of `setup`, whose role selects it: ping and pong, or pub and sub. `cores` are those of initiator and
/// responder.
pub fn run_test(program: &Path, setup: &Setup, cores: Option<(usize, usize)>, stop: &Stop) -> Result<Outcome, Error> {
    let (first, second) = match setup.role {
        Role::Ping | Role::Pong => (Role::Ping, Role::Pong),
        Role::Pub | Role::Sub => (Role::Pub, Role::Sub),
    };
    let mut responder = Agent::start(program, second)?;
    let mut initiator = Agent::start(program, first)?;
    let of = |role, core| format!("setup {}", Setup { role, core, ..setup.clone() });
    responder.send(&of(second, cores.map(|cores| cores.1)))?;
    initiator.send(&of(first, cores.map(|cores| cores.0)))?;
    for agent in [&mut initiator, &mut responder] {
        match agent.answer(PATIENCE, stop)? {
            Answer::Ready => {}
            Answer::Unsupported(reason) => return Ok(Outcome::Unsupported(reason)),
            Answer::Result(_) | Answer::About(_) => return Err(agent.failed("it reported a result before the start")),
            Answer::Error(reason) => return Err(agent.failed(&reason)),
        }
    }
    let start = start_line(setup);
    responder.send(&start)?;
    initiator.send(&start)?;
    let time = Duration::from_millis(setup.warmup_ms.saturating_add(setup.duration_ms));
    let initiator_result = initiator.result(time + PATIENCE, stop)?;
    responder.send("stop")?;
    let responder_result = responder.result(PATIENCE, stop)?;
    initiator.send("stop")?;
    initiator.finish()?;
    responder.finish()?;
    Ok(Outcome::Measured { initiator: initiator_result, responder: responder_result })
}

/// With a schedule both sides get its start on their common clock, so that the receiver knows when each sample was due.
fn start_line(setup: &Setup) -> String {
    match setup.rate {
        0 => "start".into(),
        _ => format!("start {}", MonotonicNs::now().plus(BEFORE_SCHEDULE).0),
    }
}

/// Reads the program's description of itself with these settings.
pub fn ask_about(program: &Path, setup: &Setup, stop: &Stop) -> Result<About, Error> {
    let mut agent = Agent::start(program, setup.role)?;
    agent.send(&format!("about {setup}"))?;
    let about = match agent.answer(PATIENCE, stop)? {
        Answer::About(about) => about,
        Answer::Error(reason) => return Err(agent.failed(&reason)),
        Answer::Ready | Answer::Result(_) | Answer::Unsupported(_) => {
            return Err(agent.failed("the peer did not answer `about` with a description"));
        }
    };
    agent.finish()?;
    Ok(about)
}

/// One process of a peer.
struct Agent {
    role: Role,
    process: Process,
}

impl Agent {
    fn start(program: &Path, role: Role) -> Result<Self, Error> {
        let name = program.parent().and_then(Path::file_name).unwrap_or(program.as_os_str());
        let name = format!("{} ({role})", name.to_string_lossy());
        // One byte above the limit shows that the answer is too long.
        let process = Process::start_bounded(name, Command::new(program), MAX_ANSWER_LEN as u64 + 2)?;
        Ok(Self { role, process })
    }

    fn send(&mut self, line: &str) -> Result<(), Error> {
        if self.process.write_line(line) { Ok(()) } else { Err(self.failed("it accepts no further line")) }
    }

    fn answer(&mut self, patience: Duration, stop: &Stop) -> Result<Answer, Error> {
        match self.process.hear_or_end(MonotonicNs::now().plus(patience), stop)? {
            Some(line) => Answer::parse(&line).map_err(|error| self.failed(&error.to_string())),
            None => Err(self.failed("it ended without an answer")),
        }
    }

    fn result(&mut self, patience: Duration, stop: &Stop) -> Result<PeerResult, Error> {
        match self.answer(patience, stop)? {
            Answer::Result(result) if result.role() == self.role => Ok(result),
            Answer::Result(_) => Err(self.failed("its result is of another role")),
            Answer::Error(reason) => Err(self.failed(&reason)),
            Answer::About(_) | Answer::Ready | Answer::Unsupported(_) => {
                Err(self.failed("its answer to `start` is not a result"))
            }
        }
    }

    /// Waits until the process has ended.
    fn finish(&mut self) -> Result<(), Error> {
        match self.process.wait(MonotonicNs::now().plus(PATIENCE)) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failed(&format!("it ended with {status}"))),
            None => Err(self.failed("it did not end")),
        }
    }

    fn failed(&mut self, why: &str) -> Error {
        let said = self.process.last_words(|_| true).map_or_else(String::new, |line| format!("; it said: {line}"));
        Error::Transfer(format!("{}: {why}{said}", self.process.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Used;
    use super::*;
    use crate::peers::protocol::{Publish, Reliability, Transport, Wait};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// A peer that is a script; `$role` is its role.
    fn script(name: &str, body: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("perftest-agent-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("agent");
        fs::write(
            &file,
            format!("#!/bin/sh\nread -r setup\nrole=${{setup#setup role=}}\nrole=${{role%% *}}\n{body}\n"),
        )
        .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    fn setup() -> Setup {
        Setup {
            role: Role::Pub,
            size: 28,
            reliability: Reliability::Reliable,
            wait: Wait::Listener,
            transport: Transport::Udp,
            publish: Publish::Sync,
            batch: false,
            rate: 0,
            duration_ms: 1,
            warmup_ms: 0,
            domain: 0,
            core: None,
            security: None,
        }
    }

    fn run(name: &str, body: &str) -> Result<Outcome, Error> {
        let program = script(name, body);
        let outcome = run_test(&program, &setup(), None, &Stop::default());
        fs::remove_dir_all(program.parent().unwrap()).unwrap();
        outcome
    }

    const RESULTS: &str = "echo ready; read -r start
        [ $role = pub ] && echo result role=pub sent=3 duration_ns=2 cpu_ns=1
        read -r stop
        [ $role = sub ] && echo result role=sub received=3 lost=0 out_of_order=0 duration_ns=2 cpu_ns=1 scheduled_ns=; exit 0";

    #[test]
    fn both_sides_complete_a_test() {
        let expected = Outcome::Measured {
            initiator: PeerResult::Pub { sent: 3, duration_ns: 2, used: Used { cpu_ns: 1, peak_rss_bytes: None } },
            responder: PeerResult::Sub {
                received: 3,
                lost: 0,
                out_of_order: 0,
                duration_ns: 2,
                used: Used { cpu_ns: 1, peak_rss_bytes: None },
                scheduled_ns: vec![],
            },
        };
        assert_eq!(run("both", RESULTS), Ok(expected));
    }

    #[test]
    fn peer_describes_itself() {
        let ask = |name, body| {
            let program = script(name, body);
            let about = ask_about(&program, &setup(), &Stop::default());
            fs::remove_dir_all(program.parent().unwrap()).unwrap();
            about
        };
        let expected = About { peer: "p".into(), version: "1".into(), settings: "a=b,c".into() };
        assert_eq!(ask("about", "echo about peer=p version=1 settings=a=b,c"), Ok(expected));
        let error = ask("evades", "echo ready").unwrap_err().to_string();
        assert!(error.contains("did not answer `about`"), "{error}");
    }

    #[test]
    fn unsupported_case_of_a_peer_does_not_fail() {
        assert_eq!(run("cannot", "echo unsupported no batches"), Ok(Outcome::Unsupported("no batches".into())));
    }

    #[test]
    fn failures_name_the_side_and_the_reason() {
        for (name, body, expected) in [
            ("error", "echo error no memory; exit 1", "(pub): no memory"),
            ("ends", "echo it is broken >&2; exit 1", "without an answer; it said: it is broken"),
            ("babbles", "echo hello", "'hello' begins no answer"),
            ("early", "echo result role=pub sent=3 duration_ns=2 cpu_ns=1", "before the start"),
        ] {
            let error = run(name, body).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn process_failing_after_its_result_has_failed() {
        let error = run("badly", &RESULTS.replace("exit 0", "exit 4")).unwrap_err().to_string();
        assert!(error.contains("exit status: 4"), "{error}");
    }
}
