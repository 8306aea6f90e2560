//! Other builds of this program, which are measured in turn.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use peregrine_report::record::PeerFacts;

use crate::campaign::placement::{Place, Placement, ThisMachine};
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::process::Process;

/// Turns writing and checking of payloads off, in builds that have it.
pub(super) const NO_PATTERNS: &str = "-noPatterns";
/// Longest time in which a program describes itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// An executable of `perftest` of any version. RTI Perftest's options control it, and it prints each result as one line
/// of JSON in the format of a record, to which later versions may add fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    path: PathBuf,
    version: String,
    /// Whether it writes and checks payloads by default.
    has_patterns: bool,
}

impl Program {
    /// Gets the version and the options of the program.
    ///
    /// # Errors
    /// There is no such program, or it is not `perftest`.
    pub(super) fn examine(option: &str, path: &Path, stop: &Stop) -> Result<Self, Error> {
        let refuse =
            |reason: String| Error::Setup(format!("{option} {}: {reason}; name a perftest executable", path.display()));
        let path = path.canonicalize().map_err(|error| refuse(error.to_string()))?;
        let ask = |word: &str| {
            let mut command = Command::new(&path);
            command.arg(word);
            lines_of(Process::start("the program".into(), command)?, stop)
        };
        let version = ask("--version").map_err(|error| refuse(error.to_string()))?;
        let Some(version) = version.first().and_then(|line| line.strip_prefix("perftest ")) else {
            return Err(refuse("it does not answer --version as perftest does".into()));
        };
        let help = ask("-help").map_err(|error| refuse(error.to_string()))?;
        let has_patterns = help.iter().any(|line| line.contains(NO_PATTERNS));
        Ok(Self { path: path.clone(), version: version.to_owned(), has_patterns })
    }

    /// This program.
    pub(super) fn this() -> Result<Self, Error> {
        let path = std::env::current_exe()
            .map_err(|error| Error::Setup(format!("Cannot find the file of this program: {error}")))?;
        Ok(Self { path, version: env!("CARGO_PKG_VERSION").into(), has_patterns: true })
    }

    /// Description of the program for a record. Builds of one version usually differ in their length.
    pub(super) fn facts(&self) -> PeerFacts {
        let len =
            std::fs::metadata(&self.path).map_or_else(|_| String::new(), |file| format!(", {} bytes", file.len()));
        let settings = vec![format!("program {}{len}", self.path.display())];
        PeerFacts { name: "perftest".into(), version: self.version.clone(), settings }
    }

    /// Name for people.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Option that makes the program do as much per sample as `other`, which does not check payloads.
    pub(super) fn levelling(&self, other: &Self) -> Option<&'static str> {
        (self.has_patterns && !other.has_patterns).then_some(NO_PATTERNS)
    }
}

/// Runs another program in place of this one, on this machine.
impl Placement for Program {
    fn description(&self) -> String {
        ThisMachine.description()
    }

    fn command(&self, _: Place, words: &[String]) -> Result<Command, Error> {
        let mut command = Command::new(&self.path);
        command.args(words);
        Ok(command)
    }

    fn address(&self, place: Place) -> Option<IpAddr> {
        ThisMachine.address(place)
    }
}

/// All output lines of a process until it ends.
fn lines_of(mut process: Process, stop: &Stop) -> Result<Vec<String>, Error> {
    let deadline = MonotonicNs::now().plus(PATIENCE);
    let mut lines = Vec::new();
    while let Some(line) = process.hear_or_end(deadline, stop)? {
        lines.push(line);
    }
    process.finish().map(|()| lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(has_patterns: bool) -> Program {
        Program { path: "/bin/true".into(), version: "1".into(), has_patterns }
    }

    #[test]
    fn comparison_disables_features_that_one_build_lacks() {
        let (with, without) = (program(true), program(false));
        assert_eq!((with.levelling(&without), without.levelling(&with)), (Some(NO_PATTERNS), None));
        assert_eq!((with.levelling(&with), without.levelling(&without)), (None, None));
    }

    #[test]
    fn other_program_is_refused() {
        for (path, reason) in
            [("/nowhere/at/all", "No such file"), ("/bin/true", "does not answer --version as perftest")]
        {
            let error = Program::examine("--program-a", Path::new(path), &Stop::default()).unwrap_err().to_string();
            assert!(error.contains(&format!("--program-a {path}")) && error.contains(reason), "{error}");
        }
    }
}
