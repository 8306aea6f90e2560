use std::fmt;
use std::io;
use std::time::Duration;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a test could not continue, or the violation that it found.
#[derive(Debug)]
pub enum Error {
    /// A program could not be started.
    Start {
        /// The command line.
        command: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A program for setup or for reading a capture failed.
    Tool {
        /// The command line.
        command: String,
        /// The standard error of the program.
        output: String,
    },
    /// The peer reports that a command failed.
    Refused {
        /// The peer's program.
        peer: String,
        /// The line it was sent.
        command: String,
        /// The reason that the peer gave.
        reason: String,
    },
    /// The peer's process has ended, or closed its output, before it answered.
    Ended {
        /// The peer's program.
        peer: String,
        /// The line it was sent.
        command: String,
    },
    /// The peer did not answer in time.
    Silent {
        /// The peer's program.
        peer: String,
        /// The line it was sent.
        command: String,
        /// The time limit.
        limit: Duration,
    },
    /// The peer answered with something that is not in the protocol.
    Garbled {
        /// The peer's program.
        peer: String,
        /// The answer of the peer.
        answer: String,
    },
    /// The location of the peers is unknown.
    NoPeers,
    /// The peers did not behave as a scenario demands.
    Violated(String),
    /// No data flowed between the peers before the outage that was to be tested.
    NotStarted(String),
    /// The machine ran no processes for this long, or stepped its clock by as much. The run says nothing of the peers.
    Stalled(Duration),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { command, cause } => write!(f, "cannot start `{command}`: {cause}"),
            Self::Tool { command, output } => write!(f, "`{command}` failed: {output}"),
            Self::Refused { peer, command, reason } => write!(f, "{peer} failed at `{command}`: {reason}"),
            Self::Ended { peer, command } => write!(f, "{peer} ended before it answered `{command}`"),
            Self::Silent { peer, command, limit } => {
                write!(f, "{peer} did not answer `{command}` within {} s", limit.as_secs_f64())
            }
            Self::Garbled { peer, answer } => write!(f, "{peer} answered outside the protocol: `{answer}`"),
            Self::NoPeers => {
                f.write_str("PEREGRINE_INTEROP_DIR is not set: `cargo xtask interop` builds the peers and sets it")
            }
            Self::Violated(what) => f.write_str(what),
            Self::NotStarted(state) => write!(f, "data do not flow before the outage: {state}"),
            Self::Stalled(length) => write!(f, "the machine stood still for {} ms", length.as_millis()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
