//! A peer: a process that speaks the line protocol, driven by commands and read by answers.

use std::env;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::lab::NetNs;
use crate::qos::{DataType, PolicyId, Qos};

/// Additional time for an answer beyond the time limit of the command, for loaded machines and debuggers.
const GRACE: Duration = Duration::from_secs(20);
/// Time for a peer to exit after `quit`.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);
/// The longest permitted answer; more than any test needs.
const ANSWER_LIMIT_BYTES: u64 = 64 << 20;

/// The program of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name for messages.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
}

impl Program {
    /// Cyclone DDS 0.10, as Debian has it.
    ///
    /// # Errors
    /// When the environment does not say where the peers are.
    pub fn cyclone_dds() -> Result<Self> {
        Self::built("Cyclone DDS 0.10", "cyclonedds-peer")
    }

    /// Cyclone DDS 11, from its Python wheel.
    ///
    /// # Errors
    /// When the environment does not say where the peers are.
    pub fn cyclone_dds_11() -> Result<Self> {
        Self::built("Cyclone DDS 11", "cyclonedds-py-peer")
    }

    /// Fast DDS 2.9, as Debian has it.
    ///
    /// # Errors
    /// When the environment does not say where the peers are.
    pub fn fast_dds() -> Result<Self> {
        Self::built("Fast DDS 2.9", "fastdds-peer")
    }

    /// Peregrine, from this workspace.
    ///
    /// # Errors
    /// When the environment does not say where the peers are.
    pub fn peregrine() -> Result<Self> {
        Self::built("Peregrine", "peregrine-peer")
    }

    /// Peregrine with endpoints whose samples stay serialized.
    ///
    /// # Errors
    /// When the environment does not say where the peers are.
    pub fn peregrine_serialized() -> Result<Self> {
        Self::built("Peregrine, serialized", "peregrine-serialized-peer")
    }

    /// A program in the folder into which `cargo xtask peers` builds.
    ///
    /// # Errors
    /// When the environment does not name the folder.
    pub fn built(name: &str, file: &str) -> Result<Self> {
        let folder = env::var_os("PEREGRINE_INTEROP_DIR").ok_or(Error::NoPeers)?;
        Ok(Self { name: name.to_owned(), path: PathBuf::from(folder).join(file) })
    }
}

/// How a peer joins its domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Participant {
    /// Addresses to announce to by unicast; with any, multicast is off.
    pub unicast_peers: Vec<String>,
    /// The lease; `None` is 10 s.
    pub lease_ms: Option<u32>,
    /// The largest sent RTPS message; `None` is the peer's default.
    pub message_size_max_bytes: Option<u32>,
    /// Bytes of USER_DATA in the announcement; only Peregrine's peer supports this.
    pub user_data_bytes: Option<u32>,
    /// The folder with the documents of DDS Security; the peer of Cyclone DDS 11 does not support this.
    pub security: Option<PathBuf>,
    /// The revocation list of a secured participant; only Peregrine's peer supports this.
    pub revocations: Option<PathBuf>,
    /// The bits of the keys that protect what it sends, `None` is 256; only Peregrine's peer supports this.
    pub key_bits: Option<u32>,
    /// Whether the peer has no internal threads and polls; only Peregrine's peer supports this.
    pub is_polled: bool,
}

/// Samples for a writer to write, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The value of the member `key`.
    pub key: u32,
    /// The value of `seq` in the first sample; each further one has one more.
    pub first_seq: u32,
    /// The length of `data`.
    pub size_bytes: u32,
    /// How many samples.
    pub count: u32,
    /// Pause after each sample; 0 for none.
    pub period_us: u32,
}

/// The state of an instance at the time a sample of it was taken (DDS 1.4 §2.2.2.5.1.3).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    /// ALIVE.
    Alive,
    /// NOT_ALIVE_DISPOSED.
    Disposed,
    /// NOT_ALIVE_NO_WRITERS.
    NoWriters,
}

/// One sample as a reader took it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Received {
    /// The value of the member `key`.
    pub key: u32,
    /// The value of the member `seq`; 0 without data.
    pub seq: u32,
    /// The length of the member `data`; 0 without data.
    #[serde(rename = "size")]
    pub size_bytes: usize,
    /// Whether each byte of `data` is the one that its position and `seq` demand.
    pub intact: bool,
    /// Whether there is data, and not only a change of the instance's state.
    pub valid: bool,
    /// The state of its instance.
    pub instance: InstanceState,
    /// The time of the take, in nanoseconds since 1970.
    pub taken_ns: u64,
}

/// The communication statuses of a writer or reader; those that it does not have are 0.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Status {
    /// In an answer to a wait: whether its condition holds.
    pub reached: bool,
    /// Matched endpoints now.
    pub matched: u32,
    /// Matches ever made.
    pub matched_total: u32,
    /// Endpoints that did not match because of QoS.
    pub incompatible_qos: u32,
    /// The last incompatible policy.
    incompatible_policy: u32,
    /// Writers alive, of a reader.
    pub alive: u32,
    /// Writers not alive, of a reader.
    pub not_alive: u32,
    /// Deadlines missed.
    pub deadline_missed: u32,
    /// Times that a writer did not assert its liveliness.
    pub liveliness_lost: u32,
    /// Samples that a reader reported as lost.
    pub sample_lost: u32,
    /// Stalls of delivery that a writer reported.
    pub stalled: u32,
}

impl Status {
    /// The policy that kept the last incompatible endpoint from matching.
    pub fn incompatible_policy(&self) -> PolicyId {
        PolicyId(self.incompatible_policy)
    }
}

/// A running peer. The drop asks it to exit, and kills it by its process id if it does not.
#[derive(Debug)]
pub struct Peer {
    name: String,
    child: Child,
    commands: Option<ChildStdin>,
    answers: Receiver<String>,
    grace: Duration,
    version: String,
}

#[derive(Deserialize)]
struct Acknowledgement {
    ok: bool,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct Greeting {
    peer: String,
}

#[derive(Deserialize)]
struct Told {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Taken {
    samples: Vec<Received>,
}

impl Peer {
    /// Starts the program on a host and waits for its greeting.
    ///
    /// # Errors
    /// When it cannot be started, or does not greet.
    pub fn start(program: &Program, host: &NetNs) -> Result<Self> {
        let mut child = host
            .command(&program.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|cause| Error::Start { command: program.path.display().to_string(), cause })?;
        let commands = child.stdin.take();
        let output = child.stdout.take();
        let (sender, answers) = sync_channel(4);
        thread::spawn(move || {
            let lines = output.map(|output| BufReader::new(std::io::Read::take(output, ANSWER_LIMIT_BYTES)).lines());
            for line in lines.into_iter().flatten().map_while(|line| line.ok()) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let version = String::new();
        let mut peer = Self { name: program.name.clone(), child, commands, answers, grace: GRACE, version };
        let greeting = peer.answer("start", Duration::ZERO)?;
        peer.version = peer.parse::<Greeting>(&greeting)?.peer;
        Ok(peer)
    }

    /// The name and version that the peer states.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Replaces the additional time for answers, for a peer that will be stopped for a while.
    pub(crate) fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Creates the peer's one participant.
    ///
    /// # Errors
    /// As of every command: the peer refuses, ends, or does not answer in time.
    pub fn participant(&mut self, domain: u32, options: &Participant) -> Result<()> {
        let mut command = format!("participant {domain}");
        if !options.unicast_peers.is_empty() {
            let _ = write!(command, " peers={}", options.unicast_peers.join(","));
        }
        if let Some(lease_ms) = options.lease_ms {
            let _ = write!(command, " lease_ms={lease_ms}");
        }
        if let Some(bytes) = options.message_size_max_bytes {
            let _ = write!(command, " message_size_max={bytes}");
        }
        if options.is_polled {
            command.push_str(" wait=poll");
        }
        if let Some(folder) = &options.security {
            let _ = write!(command, " security={}", folder.display());
        }
        if let Some(list) = &options.revocations {
            let _ = write!(command, " revocations={}", list.display());
        }
        if let Some(bits) = options.key_bits {
            let _ = write!(command, " key_bits={bits}");
        }
        if let Some(bytes) = options.user_data_bytes {
            let _ = write!(command, " user_data={bytes}");
        }
        self.run(&command)
    }

    /// The name of the product that the peer runs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a writer, which later commands call `name`.
    ///
    /// # Errors
    /// As of every command.
    pub fn writer(&mut self, name: &str, topic: &str, data_type: DataType, qos: &Qos) -> Result<()> {
        self.run(&format!("writer {name} {topic} {}{qos}", data_type.name()))
    }

    /// Creates a reader, which later commands call `name`.
    ///
    /// # Errors
    /// As of every command.
    pub fn reader(&mut self, name: &str, topic: &str, data_type: DataType, qos: &Qos) -> Result<()> {
        self.run(&format!("reader {name} {topic} {}{qos}", data_type.name()))
    }

    /// Deletes a writer or reader.
    ///
    /// # Errors
    /// As of every command.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        self.run(&format!("delete {name}"))
    }

    /// Writes; returns when the writer has accepted the last sample.
    ///
    /// # Errors
    /// As of every command.
    pub fn write(&mut self, writer: &str, write: &Write) -> Result<()> {
        let Write { key, first_seq, size_bytes, count, period_us } = write;
        let own_time = Duration::from_micros(u64::from(*period_us)) * *count + Duration::from_secs(60);
        self.request(&format!("write {writer} {key} {first_seq} {size_bytes} {count} {period_us}"), own_time).map(drop)
    }

    /// Disposes an instance.
    ///
    /// # Errors
    /// As of every command.
    pub fn dispose(&mut self, writer: &str, key: u32) -> Result<()> {
        self.run(&format!("dispose {writer} {key}"))
    }

    /// Unregisters an instance, which does not dispose it.
    ///
    /// # Errors
    /// As of every command.
    pub fn unregister(&mut self, writer: &str, key: u32) -> Result<()> {
        self.run(&format!("unregister {writer} {key}"))
    }

    /// Replaces the revocation list of a secured participant. Only Peregrine's peer supports this.
    ///
    /// # Errors
    /// As of every command.
    pub fn revoke(&mut self, list: &Path) -> Result<()> {
        self.run(&format!("revoke {}", list.display()))
    }

    /// Waits until every matched reliable reader has acknowledged all written samples.
    ///
    /// # Errors
    /// As of every command; a timeout is a refusal.
    pub fn wait_acknowledged(&mut self, writer: &str, limit: Duration) -> Result<()> {
        self.request(&format!("wait-acked {writer} {}", limit.as_millis()), limit).map(drop)
    }

    /// Takes until `count` samples were received or the time is over, and returns the samples.
    ///
    /// # Errors
    /// As of every command.
    pub fn take(&mut self, reader: &str, count: u32, limit: Duration) -> Result<Vec<Received>> {
        let answer = self.request(&format!("take {reader} {count} {}", limit.as_millis()), limit)?;
        Ok(self.parse::<Taken>(&answer)?.samples)
    }

    /// Waits until exactly `count` endpoints match, and fails if they do not in time.
    ///
    /// # Errors
    /// As of every command; [`Error::Violated`] when the time is over.
    pub fn wait_matched(&mut self, endpoint: &str, count: u32, limit: Duration) -> Result<()> {
        self.wait(endpoint, &format!("matched = {count}"), limit).map(drop)
    }

    /// Waits until a condition on a status holds, such as `incompatible_qos >= 1`, and returns the statuses then.
    ///
    /// # Errors
    /// As of every command; [`Error::Violated`] when the time is over.
    pub fn wait(&mut self, endpoint: &str, condition: &str, limit: Duration) -> Result<Status> {
        let answer = self.request(&format!("wait {endpoint} {condition} {}", limit.as_millis()), limit)?;
        let status: Status = self.parse(&answer)?;
        if status.reached {
            return Ok(status);
        }
        let seconds = limit.as_secs_f64();
        Err(Error::Violated(format!("{}: `{condition}` of {endpoint} not within {seconds} s: {status:?}", self.name)))
    }

    /// The statuses now.
    ///
    /// # Errors
    /// As of every command.
    pub fn status(&mut self, endpoint: &str) -> Result<Status> {
        let answer = self.request(&format!("status {endpoint}"), Duration::ZERO)?;
        self.parse(&answer)
    }

    /// Waits until Peregrine has reported an event of security, or a reason for which endpoints do not match, whose
    /// text has all these parts, and returns the text. Only Peregrine's peer supports this.
    ///
    /// # Errors
    /// As of every command; [`Error::Violated`] with all texts when the time is over.
    pub fn wait_reason(&mut self, parts: &[&str], limit: Duration) -> Result<String> {
        Ok(self.wait_reasons(1, parts, limit)?.concat())
    }

    /// Like [`Self::wait_reason`] for the first `count` texts with all these parts.
    ///
    /// # Errors
    /// As of [`Self::wait_reason`].
    pub fn wait_reasons(&mut self, count: usize, parts: &[&str], limit: Duration) -> Result<Vec<String>> {
        let end = Instant::now() + limit;
        let (mut found, mut others) = (Vec::new(), Vec::new());
        while found.len() < count {
            let (index, left) = (found.len() + others.len(), end.saturating_duration_since(Instant::now()));
            let answer = self.request(&format!("reason {index} {}", left.as_millis()), left)?;
            match self.parse::<Told>(&answer)?.reason {
                Some(reason) if parts.iter().all(|part| reason.contains(part)) => found.push(reason),
                Some(reason) => others.push(reason),
                None => {
                    let what = format!("{} told {} of {count} with {parts:?}", self.name, found.len());
                    return Err(Error::Violated(format!("{what}; others: {others:#?}")));
                }
            }
        }
        Ok(found)
    }

    /// The events of security, and the reasons for which endpoints do not match, that Peregrine has reported so far,
    /// without the first `index`. Only Peregrine's peer supports this.
    ///
    /// # Errors
    /// As of every command.
    pub fn reasons_from(&mut self, index: usize) -> Result<Vec<String>> {
        let mut found = Vec::new();
        loop {
            let answer = self.request(&format!("reason {} 0", index + found.len()), Duration::ZERO)?;
            match self.parse::<Told>(&answer)?.reason {
                Some(reason) => found.push(reason),
                None => return Ok(found),
            }
        }
    }

    /// Kills the process, so that it cannot announce its end.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill(mut self) -> Result<()> {
        let cause = |cause| Error::Start { command: format!("kill {}", self.name), cause };
        self.child.kill().map_err(cause)?;
        self.child.wait().map_err(cause)?;
        Ok(())
    }

    /// Makes the peer delete all entities and exit, and waits for its end.
    pub fn leave(self) {
        drop(self);
    }

    fn run(&mut self, command: &str) -> Result<()> {
        self.request(command, Duration::ZERO).map(drop)
    }

    /// Sends a command and returns the answer; `own_time` is the time limit of the command itself.
    fn request(&mut self, command: &str, own_time: Duration) -> Result<String> {
        let ended = || Error::Ended { peer: self.name.clone(), command: command.to_owned() };
        let commands = self.commands.as_mut().ok_or_else(ended)?;
        writeln!(commands, "{command}").and_then(|()| commands.flush()).map_err(|_| ended())?;
        self.answer(command, own_time)
    }

    fn answer(&self, command: &str, own_time: Duration) -> Result<String> {
        let [peer, command] = [self.name.clone(), command.to_owned()];
        let limit = own_time + self.grace;
        let answer = match self.answers.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => return Err(Error::Silent { peer, command, limit }),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Ended { peer, command }),
        };
        let acknowledgement: Acknowledgement = self.parse(&answer)?;
        if acknowledgement.ok {
            Ok(answer)
        } else {
            Err(Error::Refused { peer, command, reason: acknowledgement.error })
        }
    }

    fn parse<T: DeserializeOwned>(&self, answer: &str) -> Result<T> {
        serde_json::from_str(answer)
            .map_err(|_| Error::Garbled { peer: self.name.clone(), answer: answer.chars().take(200).collect() })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of the input has the effect of `quit`.
        drop(self.commands.take());
        let deadline = Instant::now() + LEAVE_LIMIT;
        // The reading thread ends with the peer's output, which is the event to wait for.
        while self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
