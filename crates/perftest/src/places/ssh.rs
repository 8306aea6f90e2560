//! A host with this program that the user's `ssh` reaches.
//!
//! One connection per host carries everything: its first session holds a private folder there while its input is open;
//! every process is a further session on the same connection. When this process ends in any way, the inputs end, then
//! the processes and the folder there, then the connection, then the folder here.

use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::tools::{self, SSH};
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::terminal::message;

/// Time that `ssh` has to reach a host.
const CONNECT_TIMEOUT_S: u32 = 10;
/// Time that a host has to answer, connecting included.
const ANSWER: Duration = Duration::from_secs(30);
/// Time for copying this program.
const COPY: Duration = Duration::from_secs(300);
/// Time that a connection has to end after its input.
const FAREWELL: Duration = Duration::from_secs(5);
/// Interval at which a wait checks the stop request.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Bytes of a session's output that are kept.
const MAX_OUTPUT_LEN: u64 = 256 * 1024;
/// Lines of the first session that are read ahead.
const LINES_WAITING: usize = 64;
/// Prefix of every line of the first session; a login script may print other lines.
const MARK: &str = "perftest:";
/// Creates the folder, reports the host, and holds the folder until its input ends.
const ANCHOR: &str = r#"umask 077; d=$(mktemp -d "${TMPDIR:-/tmp}/perftest-XXXXXXXX") || exit 1; trap 'rm -rf "$d"' EXIT; trap 'exit 1' HUP INT TERM; p=$(command -v perftest); echo "perftest:folder $d"; echo "perftest:system $(uname -s) $(uname -m)"; echo "perftest:connection $SSH_CONNECTION"; echo "perftest:installed $p"; if test -n "$p"; then echo "perftest:version $(perftest --version 2>/dev/null)"; echo "perftest:sum $(sha256sum <"$p" 2>/dev/null)"; fi; echo "perftest:ready"; cat >/dev/null"#;
/// Passes its input and its end on to ssh, and removes the folder with the socket of the connection.
const LOCAL_ANCHOR: &str = r#"ssh "$@"; code=$?; rm -rf -- "$0"; exit $code"#;

/// A connection to a host.
#[derive(Debug)]
pub(super) struct Host {
    name: String,
    settings: Vec<String>,
    anchor: Child,
    input: Option<ChildStdin>,
    folder_here: PathBuf,
    /// The private folder on the host.
    pub(super) folder: String,
    /// Path of this program on the host.
    program: String,
    /// Address under which the host was reached.
    pub(super) address: IpAddr,
}

/// Facts that a host reports.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answers {
    folder: String,
    system: String,
    connection: String,
    installed: String,
    version: String,
    sum: String,
}

impl Host {
    /// Connects, and ensures that this version of this program is on the host.
    ///
    /// # Errors
    /// One line with the host and the remedy.
    pub(super) fn connect(name: &str, config: Option<&Path>, stop: &Stop) -> Result<Self, Error> {
        let folder_here = private_folder()?;
        let settings = settings(config, &folder_here.join("ssh"));
        let mut anchor = Command::new("sh")
            .args(["-c", LOCAL_ANCHOR])
            .arg(&folder_here)
            .args(&settings)
            .args(["-o", "ControlMaster=yes", "--", name, &in_shell(ANCHOR)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Setup(format!("Cannot start sh: {error}")))?;
        let input = anchor.stdin.take();
        let (lines, messages) = (lines_of(anchor.stdout.take()), text_of(anchor.stderr.take()));
        let mut host = Self {
            name: name.into(),
            settings,
            anchor,
            input,
            folder_here,
            folder: String::new(),
            program: String::new(),
            address: IpAddr::from([0, 0, 0, 0]),
        };
        let answers = host.answers(&lines, &messages, stop)?;
        host.address = address(&answers.connection).ok_or_else(|| {
            host.wrong("does not report the address of the connection (SSH_CONNECTION); use --addresses")
        })?;
        host.folder = answers.folder.clone();
        host.program = host.find_program(&answers, stop)?;
        Ok(host)
    }

    /// A command that runs this program there.
    pub(super) fn command(&self, words: &[String]) -> Command {
        let line = std::iter::once(&self.program).chain(words).map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        self.session(&format!("exec {line}"))
    }

    /// Content of a file in the host's folder.
    pub(super) fn fetch(&self, file: &str, stop: &Stop) -> Result<Vec<u8>, Error> {
        let script = format!("exec cat -- {}", quoted(&format!("{}/{file}", self.folder)));
        let output = self.ask(self.session(&script).stdin(Stdio::null()), COPY, u64::MAX, stop)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(self.wrong(&format!("does not give {file}: {}", last_line(&output.stderr))))
    }

    /// Runs a command to its end and returns its output.
    pub(super) fn ask(
        &self,
        command: &mut Command,
        limit: Duration,
        max_len: u64,
        stop: &Stop,
    ) -> Result<Output, Error> {
        let failed = |error: std::io::Error| Error::Setup(format!("Cannot run {}: {error}", SSH.name));
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().map_err(failed)?;
        let (stdout, stderr) =
            (octets_of(child.stdout.take(), max_len), octets_of(child.stderr.take(), MAX_OUTPUT_LEN));
        let deadline = MonotonicNs::now().plus(limit);
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                let take = |bytes: Receiver<Vec<u8>>| bytes.recv_timeout(FAREWELL).unwrap_or_default();
                return Ok(Output { status, stdout: take(stdout), stderr: take(stderr) });
            }
            let has_stopped = stop.reason().is_some();
            if has_stopped || deadline.remaining().is_zero() {
                let _ = child.kill();
                let _ = child.wait();
                let late = || self.wrong(&format!("did not answer within {} s; is it overloaded?", limit.as_secs()));
                return Err(if has_stopped { Error::Interrupted } else { late() });
            }
            std::thread::sleep(STOP_POLL);
        }
    }

    fn session(&self, script: &str) -> Command {
        let mut command = Command::new(SSH.name);
        command.args(&self.settings).args(["-o", "ControlMaster=no", "--", &self.name, &in_shell(script)]);
        command
    }

    /// The facts that the first session prints before it is ready.
    fn answers(
        &mut self,
        lines: &Receiver<String>,
        messages: &Receiver<Vec<u8>>,
        stop: &Stop,
    ) -> Result<Answers, Error> {
        let deadline = MonotonicNs::now().plus(ANSWER);
        let mut answers = Answers::default();
        loop {
            match lines.recv_timeout(STOP_POLL) {
                Ok(line) if answers.take(&line) => return Ok(answers),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let text = messages.recv_timeout(FAREWELL).unwrap_or_default();
                    return Err(self.wrong(&explanation(&self.name, &String::from_utf8_lossy(&text))));
                }
            }
            if stop.reason().is_some() {
                return Err(Error::Interrupted);
            }
            if deadline.remaining().is_zero() {
                return Err(self.wrong(&format!(
                    "did not answer within {} s; is its shell waiting for something? try: ssh {} true",
                    ANSWER.as_secs(),
                    self.name
                )));
            }
        }
    }

    /// The installed program if it equals this one, else a copy of this one.
    fn find_program(&self, answers: &Answers, stop: &Stop) -> Result<String, Error> {
        let own_system = own_system()?;
        let is_same_kind = answers.system == own_system;
        let own_version = format!("perftest {}", env!("CARGO_PKG_VERSION"));
        if !answers.installed.is_empty() {
            // The file of another architecture cannot be equal.
            let is_same = if is_same_kind { answers.sum == own_sum()? } else { answers.version == own_version };
            if is_same {
                return Ok(answers.installed.clone());
            }
        }
        if !is_same_kind {
            let found = if answers.installed.is_empty() { "none" } else { answers.version.as_str() };
            return Err(self.wrong(&format!(
                "is {}, this machine {own_system}, and its perftest is not of this version (found: {found}); install {own_version} there",
                answers.system
            )));
        }
        let program = format!("{}/perftest", answers.folder);
        message(format_args!("Copying this program to {}", self.name));
        self.copy_to(&program, stop)?;
        let output = self.ask(
            self.session(&format!("{} --version", quoted(&program))).stdin(Stdio::null()),
            ANSWER,
            MAX_OUTPUT_LEN,
            stop,
        )?;
        if String::from_utf8_lossy(&output.stdout).trim() == own_version {
            return Ok(program);
        }
        Err(self
            .wrong(&format!("cannot run this program ({}); install {own_version} there", last_line(&output.stderr))))
    }

    fn copy_to(&self, program: &str, stop: &Stop) -> Result<(), Error> {
        let own = own_file()?;
        let path = quoted(program);
        let mut command = self.session(&format!("cat >{path} && chmod 700 {path}"));
        let output = self.ask(command.stdin(own), COPY, MAX_OUTPUT_LEN, stop)?;
        if output.status.success() {
            return Ok(());
        }
        Err(self.wrong(&format!("did not take the copy of this program: {}", last_line(&output.stderr))))
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Setup(format!("Host {}: {what}", self.name))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.input = None;
        let deadline = MonotonicNs::now().plus(FAREWELL);
        while matches!(self.anchor.try_wait(), Ok(None)) {
            if deadline.remaining().is_zero() {
                // Kills a connection that hangs, together with its shell.
                if let Some(group) = rustix::process::Pid::from_raw(self.anchor.id() as i32) {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                let _ = self.anchor.wait();
            }
            std::thread::sleep(STOP_POLL);
        }
        // The shell has removed the folder, unless it was killed.
        let _ = std::fs::remove_dir_all(&self.folder_here);
    }
}

impl Answers {
    /// Handles a line. Returns whether it was the last.
    fn take(&mut self, line: &str) -> bool {
        let Some((key, value)) = line.strip_prefix(MARK).map(|line| line.split_once(' ').unwrap_or((line, ""))) else {
            return false;
        };
        let field = match key {
            "folder" => &mut self.folder,
            "system" => &mut self.system,
            "connection" => &mut self.connection,
            "installed" => &mut self.installed,
            "version" => &mut self.version,
            "sum" => &mut self.sum,
            other => return other == "ready",
        };
        *field = value.trim().to_owned();
        false
    }
}

/// Options of `ssh` besides the user's configuration. Nothing prompts the user, no wait is unbounded, and none of the
/// user's forwardings and remote commands take part.
fn settings(config: Option<&Path>, control: &Path) -> Vec<String> {
    let mut words = vec!["-T".to_owned()];
    if let Some(config) = config {
        words.extend(["-F".into(), config.display().to_string()]);
    }
    let fixed = [
        format!("ControlPath={}", control.display()),
        "ControlPersist=no".into(),
        "BatchMode=yes".into(),
        format!("ConnectTimeout={CONNECT_TIMEOUT_S}"),
        "ConnectionAttempts=1".into(),
        "ServerAliveInterval=5".into(),
        "ServerAliveCountMax=3".into(),
        "LogLevel=ERROR".into(),
        "ClearAllForwardings=yes".into(),
        "ForwardAgent=no".into(),
        "ForwardX11=no".into(),
        "PermitLocalCommand=no".into(),
        "RemoteCommand=none".into(),
    ];
    words.extend(fixed.into_iter().flat_map(|setting| ["-o".to_owned(), setting]));
    words
}

/// An error of `ssh` in one line, with the remedy.
fn explanation(name: &str, text: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["Could not resolve hostname"]) {
        return "its name cannot be resolved; check --hosts, or give it a HostName in your ssh configuration".into();
    }
    if has(&["Host key verification failed"]) {
        return format!("ssh does not know its key, or it has changed; connect once by hand: ssh {name}");
    }
    if has(&["Permission denied (", "Too many authentication failures"]) {
        return format!("permission denied; it needs a key that works without a password: ssh-copy-id {name}");
    }
    if has(&["Connection refused"]) {
        return "refuses the connection; is sshd running there, on the port that your ssh configuration names?".into();
    }
    if has(&["timed out", "No route to host", "Network is unreachable"]) {
        return format!("cannot be reached ({CONNECT_TIMEOUT_S} s at most); is it on, and the network between?");
    }
    format!("ssh failed: {}", last_line(text.as_bytes()))
}

/// The server's address in `SSH_CONNECTION`: client, its port, server, its port.
fn address(connection: &str) -> Option<IpAddr> {
    connection.split_whitespace().nth(2)?.parse().ok()
}

/// One word for any shell that supports single quotes.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A command line that runs the script in the standard shell, independent of the user's shell.
fn in_shell(script: &str) -> String {
    format!("exec sh -c {}", quoted(script))
}

fn own_system() -> Result<String, Error> {
    tools::run(Command::new("uname").arg("-s").arg("-m")).map(|text| text.trim().to_owned())
}

/// This program, even if its file was replaced meanwhile.
fn own_file() -> Result<File, Error> {
    File::open("/proc/self/exe").map_err(|error| Error::Setup(format!("Cannot read this program: {error}")))
}

/// Checksum of this program as `sha256sum` prints it; empty if there is no such command.
fn own_sum() -> Result<String, Error> {
    let output = Command::new("sha256sum").stdin(own_file()?).output();
    Ok(output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default())
}

/// A new private folder, with a name short enough for a socket in it.
fn private_folder() -> Result<PathBuf, Error> {
    let parent = std::env::temp_dir();
    for attempt in 0..100 {
        let path = parent.join(format!("perftest-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::Setup(format!("Cannot create the folder {}: {error}", path.display()))),
        }
    }
    Err(Error::Setup(format!("Cannot create a folder in {}: remove the old perftest-* there", parent.display())))
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_owned()
}

fn lines_of(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, lines) = sync_channel(LINES_WAITING);
    std::thread::spawn(move || {
        let Some(stream) = stream else { return };
        for line in BufReader::new(stream.take(MAX_OUTPUT_LEN)).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn text_of(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    octets_of(stream, MAX_OUTPUT_LEN)
}

/// Reads to the end of the stream; bytes beyond the bound are discarded.
fn octets_of(stream: Option<impl Read + Send + 'static>, max_len: u64) -> Receiver<Vec<u8>> {
    let (sender, bytes) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.by_ref().take(max_len).read_to_end(&mut text);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        let _ = sender.send(text);
    });
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_pass_the_shell_unchanged() {
        let word = r#"it's "$HOME" \ `x` *"#;
        let script = format!("printf %s {}", quoted(word));
        let output = Command::new("sh").args(["-c", &in_shell(&script)]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), word);
    }

    #[test]
    fn host_facts_are_found_among_login_output() {
        let mut answers = Answers::default();
        for line in
            ["Welcome!", "perftest:folder /srv/x y", "perftest:connection 10.0.0.9 1 10.0.0.1 22", "perftest:sum "]
        {
            assert!(!answers.take(line));
        }
        assert!(answers.take("perftest:ready"));
        assert_eq!(answers.folder, "/srv/x y");
        assert_eq!(address(&answers.connection), Some([10, 0, 0, 1].into()));
        assert_eq!(address(""), None);
    }

    #[test]
    fn anchor_keeps_folder_until_input_ends() {
        let mut anchor = Command::new("sh")
            .args(["-c", ANCHOR])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = lines_of(anchor.stdout.take());
        let mut answers = Answers::default();
        while !answers.take(&lines.recv_timeout(ANSWER).unwrap()) {}
        assert!(Path::new(&answers.folder).is_dir() && answers.system == own_system().unwrap());
        drop(anchor.stdin.take());
        anchor.wait().unwrap();
        assert!(!Path::new(&answers.folder).exists());
    }

    #[test]
    fn error_of_ssh_becomes_a_remedy() {
        for (said, told) in [
            ("ssh: Could not resolve hostname x: Name or service not known\n", "cannot be resolved"),
            ("Host key verification failed.\n", "by hand: ssh x"),
            ("me@x: Permission denied (publickey,password).\n", "ssh-copy-id x"),
            ("ssh: connect to host x port 22: Connection refused\n", "is sshd running"),
            ("ssh: connect to host x port 22: No route to host\n", "cannot be reached"),
            ("ssh: connect to host x port 22: Connection timed out\n", "cannot be reached"),
            ("mktemp: failed to create directory: Permission denied\n\n", "ssh failed: mktemp: failed"),
        ] {
            let text = explanation("x", said);
            assert!(text.contains(told) && !text.contains('\n'), "{text}");
        }
    }
}
