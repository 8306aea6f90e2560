//! Starts the program and waits for it, always with a timeout.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Timeout of every process of these tests.
const LIMIT: Duration = Duration::from_secs(60);
/// Highest domain of a test: ports of higher domains overlap with ephemeral ports.
const HIGHEST_DOMAIN: u32 = 101;

/// A running process whose output is read as it arrives.
pub(crate) struct Process {
    /// `None` once [`Self::finish`] waits for it.
    child: Option<Child>,
    id: Pid,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

/// Exit status and output of a process.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: String,
}

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_perftest");

/// Starts the program with the arguments of `line`. It finds no peers, even if some are built on this machine.
pub(crate) fn start(line: &str) -> Process {
    let mut command = Command::new(PROGRAM);
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/without-peers"));
    start_command(command, line)
}

/// Starts a command that runs the program, with the arguments of `line` after its own.
pub(crate) fn start_command(mut command: Command, line: &str) -> Process {
    let mut words = line.split_whitespace().skip_while(|word| *word != "-domain").skip(1);
    let domain = words.next().map_or(0, |word| word.parse::<u32>().unwrap());
    assert!(domain <= HIGHEST_DOMAIN, "{domain}");
    let mut child = command
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = lines_of(child.stdout.take().unwrap());
    let stderr = lines_of(child.stderr.take().unwrap());
    let id = Pid::from_child(&child);
    Process { child: Some(child), id, stdout, stderr }
}

/// Runs the program to its end.
pub(crate) fn run(line: &str) -> Outcome {
    start(line).finish()
}

fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(100_000);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Process {
    /// Waits for a line on stdout that satisfies `wanted`, and returns it.
    pub(crate) fn wait_for_stdout(&self, wanted: impl Fn(&str) -> bool) -> String {
        wait_for(&self.stdout, wanted)
    }

    /// Waits for a line on stderr that satisfies `wanted`, and returns it.
    pub(crate) fn wait_for_stderr(&self, wanted: impl Fn(&str) -> bool) -> String {
        wait_for(&self.stderr, wanted)
    }

    /// Number of the process.
    pub(crate) fn id(&self) -> i32 {
        self.id.as_raw_nonzero().get()
    }

    /// Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.id, signal).unwrap();
    }

    /// Waits for the end, and takes the rest of the output.
    pub(crate) fn finish(mut self) -> Outcome {
        let mut child = self.child.take().unwrap();
        let (sender, ended) = sync_channel(1);
        let waiting = std::thread::spawn(move || {
            let status: ExitStatus = child.wait().unwrap();
            let _ = sender.send(());
            status
        });
        if ended.recv_timeout(LIMIT).is_err() {
            let _ = kill_process(self.id, Signal::KILL);
            panic!("the process did not end: {}", collect(&self.stderr).join("\n"));
        }
        let status = waiting.join().unwrap();
        Outcome {
            code: status.code().unwrap_or(-1),
            stdout: collect(&self.stdout),
            stderr: collect(&self.stderr).join("\n"),
        }
    }
}

/// A failed test leaves no running process.
impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait_for(lines: &Receiver<String>, wanted: impl Fn(&str) -> bool) -> String {
    loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) if wanted(&line) => return line,
            Ok(_) => {}
            Err(error) => panic!("the awaited line did not arrive: {error}"),
        }
    }
}

fn collect(lines: &Receiver<String>) -> Vec<String> {
    std::iter::from_fn(|| lines.recv_timeout(LIMIT).ok()).collect()
}

/// A core that this process may use.
pub(crate) fn first_core() -> usize {
    perftest::threads::allowed_cores()[0]
}

/// The columns of a row of results.
pub(crate) fn columns(row: &str) -> Vec<f64> {
    row.split(',').map(|column| column.trim().parse().unwrap_or_else(|_| panic!("'{row}' is not a row"))).collect()
}

/// A folder for one test, removed at its end.
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perftest-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
