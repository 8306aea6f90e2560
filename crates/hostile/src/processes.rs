//! Starts the two processes, asks them, and reads from the kernel what they use.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::param::{clock_ticks_per_second, page_size};

use crate::control::{Identity, Question, State};

/// How long a process may take to answer, and to start. A process that takes longer counts as hanging.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);
/// Answers that may wait: one is asked for at a time.
const ANSWERS_MAX: usize = 4;

/// A victim or an honest peer. Dropping it ends the process.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    pub(crate) identity: Identity,
}

impl Process {
    pub(crate) fn start(role: &str, domain: u32, tag: &str, run: u64, documents: Option<&Path>) -> Result<Self> {
        let program = env::current_exe().context("this program has no path")?;
        let mut command = Command::new(program);
        command.args(["--role", role, "--tag", tag, "--domain", &domain.to_string(), "--run", &run.to_string()]);
        if let Some(folder) = documents {
            command.arg("--documents").arg(folder);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the {role}"))?;
        let input = child.stdin.take().context("no pipe")?;
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        let (lines, answers) = mpsc::sync_channel(ANSWERS_MAX);
        // Ends with the process.
        drop(thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| lines.send(line))));
        let identity = answer(&answers).with_context(|| format!("the {role} did not start"))?;
        Ok(Self { child, input, answers, identity })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ask(&mut self, question: Question) -> Result<State> {
        writeln!(self.input, "{}", serde_json::to_string(&question)?).context("the process has ended")?;
        self.input.flush()?;
        answer(&self.answers)
    }

    /// Milliseconds that the threads of the process have run, in the kernel and outside.
    pub(crate) fn cpu_ms(&self) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field, the name, may contain blanks.
        let (_, fields) = text.rsplit_once(')').context("stat has no name")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        Ok(ticks * 1000 / clock_ticks_per_second())
    }
}

/// Bytes of memory that a process occupies.
pub(crate) fn resident_bytes(process: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages: u64 = text.split_whitespace().nth(1).context("statm has no second field")?.parse()?;
    Ok(pages * page_size() as u64)
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that the process has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer<T: serde::de::DeserializeOwned>(answers: &Receiver<String>) -> Result<T> {
    let line = answers.recv_timeout(ANSWER_PATIENCE).context("the process has ended or hangs")?;
    serde_json::from_str(&line).with_context(|| format!("not an answer: {line}"))
}
