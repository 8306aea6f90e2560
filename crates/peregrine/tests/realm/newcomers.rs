//! A second process with participants that join one after the other. Each has a writer, and writes one sample.

use std::io::{BufRead as _, Write as _};
use std::process::{Child, Command, Stdio};

use peregrine::security::SecurityConfig;
use peregrine::{DataWriter, DomainParticipant};

use super::{Block, PATIENCE, Realm, config, writer};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The second process, which ends with this value.
pub(crate) struct Newcomers(Child);

impl Newcomers {
    /// Starts the process by a command that calls [`run`]. Its participants are members of the realm.
    pub(crate) fn start(mut command: Command, realm: &Realm) -> Result<Self> {
        let child = command.stdin(Stdio::piped()).spawn();
        let mut newcomers =
            Self(child.map_err(|error| format!("the process of the participants does not start: {error}"))?);
        for (name, value) in realm.member_parts("B", 3) {
            newcomers.write(&format!("{name} {}", value.replace('\n', "\\n")))?;
        }
        newcomers.write("")?;
        Ok(newcomers)
    }

    /// Orders one more participant.
    pub(crate) fn add(&mut self) -> Result<()> {
        self.write("next")
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let input = self.0.stdin.as_mut().ok_or("the process of the participants has no standard input")?;
        Ok(writeln!(input, "{line}")?)
    }
}

impl Drop for Newcomers {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // A process that has failed has said so on its standard error.
        let _ = self.0.wait();
    }
}

/// Creates participants as ordered on the standard input, until it ends.
pub(crate) fn run(domain: u32, topic: &str) -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let mut security = SecurityConfig::new();
    for line in lines.by_ref() {
        let line = line?;
        let Some((name, value)) = line.split_once(' ') else { break };
        security = security.property(name, &value.replace("\\n", "\n"))?;
    }
    let mut peers: Vec<(DomainParticipant, DataWriter<Block>)> = Vec::new();
    for line in lines {
        line?;
        // The participants do not look for each other: only one pair authenticates at a time.
        let mut config = config();
        config.multicast = false;
        config.peers = vec!["0@127.0.0.1".parse()?];
        let participant = DomainParticipant::builder(domain).config(config).security(security.clone()).build()?;
        let writer = writer(&participant, topic);
        writer.wait_for_readers(1, PATIENCE)?;
        writer.write(&Block { number: peers.len() as u64, octets: Vec::new() })?;
        writer.wait_for_acknowledgments(PATIENCE)?;
        peers.push((participant, writer));
    }
    Ok(())
}
