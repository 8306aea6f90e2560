//! A publisher in a lab, with its subscribers on the far host.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::options::{placed, usage};
use super::tether::{Tether, tethered};
use crate::campaign::placement::{Place, Placement};
use crate::cli::{self, Invocation, parse, words_of_both_sides};
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::terminal::{message, print_text};

/// Options of both sides that concern only one process: its files and its cores.
const OWN: [&str; 4] = ["outputFile", "recordFile", "threadCPUAffinity", "threadPriorities"];
/// Time that a subscriber has to end after its publisher.
const FAREWELL: Duration = Duration::from_secs(20);
/// Most subscribers; more are a mistake on one machine.
const MAX_SUBSCRIBERS: u64 = 64;
/// Bytes of a subscriber's messages that are kept for an error.
const MAX_MESSAGES_LEN: u64 = 16 * 1024;

/// Runs the publisher here and its subscribers on the far host, with the options of both sides. The publisher's rows
/// are printed on stdout, the subscribers' on stderr.
pub fn run_publisher(words: &[String], placement: &dyn Placement, stop: &Arc<Stop>) -> Result<(), Error> {
    let options = match parse(words)? {
        Invocation::Help => return print_text(&cli::usage()),
        Invocation::Run(options) => options,
    };
    if !options.has("pub") {
        return Err(usage(
            "In a lab the line is that of the publisher (-pub); its subscribers are started by themselves.",
        ));
    }
    let count = options.integer("numSubscribers").unwrap_or(1);
    if count > MAX_SUBSCRIBERS {
        return Err(usage(&format!("-numSubscribers {count}: a lab starts {MAX_SUBSCRIBERS} at most")));
    }
    let mut line = placed(&words_of_both_sides(words, &OWN), placement, Place::Far)?;
    line.push("-sub".into());
    if let Some(largest) = options.sizes("scan").and_then(|sizes| sizes.iter().max()) {
        line.extend(["-dataLen".into(), largest.to_string()]);
    }
    let mut subscribers = Vec::new();
    for number in 0..count {
        let mut words = line.clone();
        words.extend(["-sidMultiSubTest".into(), number.to_string()]);
        subscribers.push(Subscriber::start(number, &words, placement)?);
    }
    let published = crate::run_command_line(&placed(words, placement, Place::Near)?, stop);
    let deadline = MonotonicNs::now().plus(if published.is_ok() { FAREWELL } else { Duration::from_secs(1) });
    let received = subscribers.into_iter().map(|subscriber| subscriber.finish(deadline, stop));
    // Waits for all of them, even after a failure.
    let received = received.collect::<Vec<_>>().into_iter().collect::<Result<(), Error>>();
    published.and(received)
}

struct Subscriber {
    number: u64,
    tether: Tether,
    child: Child,
    rows: Option<JoinHandle<()>>,
    messages: Receiver<String>,
}

impl Subscriber {
    fn start(number: u64, words: &[String], placement: &dyn Placement) -> Result<Self, Error> {
        let mut command = placement.command(Place::Far, &tethered(words))?;
        let (tether, mut child) = Tether::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
            .map_err(|error| Error::Setup(format!("Cannot start subscriber {number}: {error}")))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let rows = std::thread::spawn(move || {
            for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok)) {
                message(format_args!("subscriber {number}: {line}"));
            }
        });
        let (sender, messages) = sync_channel(1);
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = stderr.by_ref().take(MAX_MESSAGES_LEN).read_to_end(&mut text);
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            }
            let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
        });
        Ok(Self { number, tether, child, rows: Some(rows), messages })
    }

    fn finish(mut self, deadline: MonotonicNs, stop: &Stop) -> Result<(), Error> {
        let number = self.number;
        let status = self.tether.wait(&mut self.child, Some(deadline), stop);
        let status =
            status.map_err(|error| Error::Transfer(format!("Cannot wait for subscriber {number}: {error}")))?;
        let Some(status) = status else {
            return Err(Error::Partner(format!("subscriber {number} did not end in time and was killed")));
        };
        if let Some(rows) = self.rows.take() {
            let _ = rows.join();
        }
        if status.success() || stop.reason().is_some() {
            return Ok(());
        }
        let messages = self.messages.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let last = messages.lines().rev().find(|line| !line.starts_with("Test ended") && !line.trim().is_empty());
        Err(Error::Transfer(format!("subscriber {number} failed ({status}): {}", last.unwrap_or("no message"))))
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
