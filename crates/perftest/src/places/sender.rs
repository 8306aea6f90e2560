//! A sender of `load` or `search` on the near one of two hosts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStderr, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use peregrine_report::record::Line;

use super::hosts::Hosts;
use super::tether::{Tether, tethered};
use crate::campaign::placement::Place;
use crate::characterize::keeper::Keeper;
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::terminal::message;

/// Options that apply only to this process; each has a value.
const LOCAL: [&str; 4] = ["--hosts", "--addresses", "--ssh-config", "--out"];
/// Interval at which a wait checks the responder.
const LOOK: Duration = Duration::from_millis(100);
/// Folder of the record on the near host, in its private folder.
const OUT: &str = "out";

/// The given command line of a sender.
#[derive(Debug)]
pub(crate) struct RemoteSender<'a> {
    /// The program's name, the command and its options.
    pub(crate) command_line: Vec<String>,
    /// The options after `--` for the sender's side.
    pub(crate) words: Vec<String>,
    /// The folder for the record on this host.
    pub(crate) out: Option<&'a Path>,
}

impl RemoteSender<'_> {
    /// Runs the sender at its place to its end, prints its output here, and fetches its record. Sends a stop request if
    /// the responder has ended.
    pub(crate) fn run(&self, hosts: &Hosts, stop: &Stop, mut has_responder: impl FnMut() -> bool) -> Result<(), Error> {
        let mut keeper = self.out.map(Keeper::create).transpose()?;
        let near = hosts.host(Place::Near);
        let mut words = without_local(self.command_line.get(1..).unwrap_or_default());
        words.push("--remote".into());
        if keeper.is_some() {
            words.extend(["--out".into(), format!("{}/{OUT}", near.folder)]);
        }
        words.push("--".into());
        words.extend(self.words.iter().cloned());
        let failed = |error: std::io::Error| Error::Setup(format!("Cannot run the sender: {error}"));
        let mut command = near.command(&tethered(&words));
        let (mut tether, mut child) =
            Tether::start(command.stdout(Stdio::inherit()).stderr(Stdio::piped())).map_err(failed)?;
        let messages = pass_on(child.stderr.take());
        let status = loop {
            let soon = Some(MonotonicNs::now().plus(LOOK));
            if let Some(status) = tether.wait(&mut child, soon, stop).map_err(failed)? {
                break status;
            }
            if !has_responder() {
                tether.ask_to_end();
            }
        };
        let _ = messages.join();
        if let Some(keeper) = &mut keeper {
            self.bring_record(hosts, keeper)?;
        }
        match status.code() {
            Some(0) => Ok(()),
            _ if stop.reason().is_some() => Err(Error::Interrupted),
            // The sender has printed the reason.
            Some(code) => Err(Error::Transfer(format!("The sender on the near host failed with status {code}."))),
            None => Err(Error::Transfer("The sender on the near host was killed.".into())),
        }
    }

    /// The record is also fetched after a stop request, which must not end this transfer.
    fn bring_record(&self, hosts: &Hosts, keeper: &mut Keeper) -> Result<(), Error> {
        let bytes = hosts.host(Place::Near).fetch(&format!("{OUT}/record.jsonl"), &Stop::default())?;
        for text in String::from_utf8_lossy(&bytes).lines() {
            let line = serde_json::from_str(text)
                .map_err(|error| Error::Transfer(format!("The record of the near host cannot be read: {error}")))?;
            keeper.keep(&match line {
                Line::Header(mut header) => {
                    header.command_line.clone_from(&self.command_line);
                    Line::Header(header)
                }
                line => line,
            })?;
        }
        message(format_args!("Record: {}", keeper.path().display()));
        keeper.finish()
    }
}

/// Prints the sender's messages, except the path of its record, which is removed at the end.
fn pass_on(stderr: Option<ChildStderr>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines().map_while(Result::ok)) {
            if !line.starts_with("Record: ") {
                message(&line);
            }
        }
    })
}

/// The command and its options before `--`, without those that apply only to this process.
fn without_local(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = words.iter().take_while(|word| *word != "--");
    while let Some(word) = rest.next() {
        if LOCAL.contains(&word.as_str()) {
            rest.next();
        } else if !LOCAL.iter().any(|name| word.strip_prefix(name).is_some_and(|value| value.starts_with('='))) {
            kept.push(word.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_options_are_not_passed_on() {
        let words: Vec<_> = "load --hosts a,b --rate 5 --out=x --addresses=1,2 --ssh-config f --spin -- --hosts"
            .split(' ')
            .map(String::from)
            .collect();
        assert_eq!(without_local(&words).join(" "), "load --rate 5 --spin");
    }
}
