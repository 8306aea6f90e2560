use std::fmt;
use std::io;
use std::time::Duration;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a test could not go on, or what it found.
#[derive(Debug)]
pub enum Error {
    /// A program could not be started.
    Start {
        /// The command line.
        command: String,
        /// What the operating system said.
        cause: io::Error,
    },
    /// A program that sets something up or reads a capture failed.
    Tool {
        /// The command line.
        command: String,
        /// What it wrote to its standard error.
        output: String,
    },
    /// The peer carried out a command and says that it failed.
    Refused {
        /// The peer's program.
        peer: String,
        /// The line it was sent.
        command: String,
        /// Its own words.
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
        /// How long it had.
        limit: Duration,
    },
    /// The peer answered with something that is not in the protocol.
    Garbled {
        /// The peer's program.
        peer: String,
        /// What it answered.
        answer: String,
    },
    /// Where the peers are is not known.
    NoPeers,
    /// What a scenario demands did not happen.
    Violated(String),
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
            Self::NoPeers => f.write_str(
                "PEREGRINE_INTEROP_DIR is not set: `cargo xtask interop` builds the peers and says where they are",
            ),
            Self::Violated(what) => f.write_str(what),
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
