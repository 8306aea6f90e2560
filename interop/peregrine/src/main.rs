//! Peregrine as an interoperability peer. The protocol on standard input and output is described in
//! `interop/README.md`.

#![forbid(unsafe_code)]

mod answer;
mod command;
mod create;
mod endpoint;
mod events;
mod news;
mod polling;
mod qos;
mod serialized;
mod types;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use peregrine::qos::{ParticipantQos, UserData};
use peregrine::security::{KeyLength, SecurityConfig};
use peregrine::{DomainConfig, DomainParticipant, WaitStrategy};

use crate::answer::Answer;
use crate::command::Command;
use crate::endpoint::{Endpoint, Load};
use crate::events::Reasons;
use crate::polling::Polling;
use crate::qos::EndpointQos;

/// The default of the other vendors' peers.
const LEASE_DEFAULT: Duration = Duration::from_secs(10);

/// Under this name, the program works with endpoints whose samples stay serialized.
const SERIALIZED_PROGRAM: &str = "peregrine-serialized-peer";

fn main() -> io::Result<()> {
    let program = std::env::args().next().unwrap_or_default();
    let mut session = Session { is_serialized: program.ends_with(SERIALIZED_PROGRAM), ..Session::default() };
    say(&Answer::greeting(format!("Peregrine {}", env!("CARGO_PKG_VERSION"))))?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let command = Command::parse(&line);
        if command.name() == "quit" {
            break;
        }
        say(&session.run(&command).unwrap_or_else(|error| Answer::refused(&error)))?;
    }
    drop(session);
    say(&Answer::DONE)
}

fn say(answer: &Answer) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The entities that commands have created. Endpoints are dropped before their participant.
#[derive(Default)]
struct Session {
    endpoints: HashMap<String, Endpoint>,
    is_serialized: bool,
    polling: Option<Polling>,
    reasons: Option<Reasons>,
    participant: Option<DomainParticipant>,
}

impl Session {
    fn run(&mut self, command: &Command<'_>) -> Result<Answer> {
        match command.name() {
            "participant" => self.create_participant(command)?,
            "writer" | "reader" => self.create_endpoint(command)?,
            "write" => self.named(command)?.as_writer()?.write(&load(command)?)?,
            "dispose" => self.named(command)?.as_writer()?.dispose(command.number(2)?)?,
            "unregister" => self.named(command)?.as_writer()?.unregister(command.number(2)?)?,
            "wait-acked" => self.named(command)?.as_writer()?.wait_acknowledged(command.millis(2)?)?,
            "take" => {
                let samples = self.named(command)?.as_reader()?.take(command.number(2)?, command.millis(3)?)?;
                return Ok(Answer::samples(samples));
            }
            "wait" => return wait(self.named(command)?, command),
            "reason" => return self.reason(command),
            "status" => return Ok(Answer::statuses(self.named(command)?.status(), true)),
            "revoke" => self.revoke(command.word(1)?)?,
            "delete" => {
                self.named(command)?;
                self.endpoints.remove(command.word(1)?);
            }
            other => bail!("no command {other}"),
        }
        Ok(Answer::DONE)
    }

    fn create_participant(&mut self, command: &Command<'_>) -> Result<()> {
        if self.participant.is_some() {
            bail!("there is a participant already");
        }
        let mut config = DomainConfig::default();
        config.same_process = false;
        if let Some(peers) = command.option("peers") {
            config.peers = peers.split(',').map(str::parse).collect::<Result<_, _>>()?;
            config.multicast = false;
        }
        config.message_bytes = command.option_number("message_size_max")?;
        let is_polled = command.choice("wait", &[("block", false), ("poll", true)])?;
        if is_polled {
            config.wait = WaitStrategy::Poll;
        }
        let user_data = UserData(vec![b'u'; command.option_number("user_data")?.unwrap_or(0)]);
        let mut builder = DomainParticipant::builder(command.number(1)?);
        if let Some(folder) = command.option("security") {
            let length = command.choice("key_bits", &[("256", KeyLength::Aes256), ("128", KeyLength::Aes128)])?;
            let mut security = security(folder).key_length(length);
            if let Some(list) = command.option("revocations") {
                security = security.revocations(format!("file:{list}"));
            }
            builder = builder.security(security);
        }
        let participant = builder
            .qos(ParticipantQos { user_data, ..ParticipantQos::default() })
            .lease(command.option_millis("lease_ms")?.unwrap_or(LEASE_DEFAULT))
            .config(config)
            .enabled(false)
            .build()?;
        // Observed before it joins: peers may answer its first announcement before this thread runs again.
        self.reasons = Some(Reasons::of(&participant));
        participant.enable()?;
        self.polling = is_polled.then(|| Polling::start(&participant));
        self.participant = Some(participant);
        Ok(())
    }

    fn create_endpoint(&mut self, command: &Command<'_>) -> Result<()> {
        let participant = self.participant.as_ref().context("there is no participant yet")?;
        let [name, topic, type_name] = [command.word(1)?, command.word(2)?, command.word(3)?];
        if self.endpoints.contains_key(name) {
            bail!("{name} exists already");
        }
        let create = if command.name() == "writer" { create::writer } else { create::reader };
        let endpoint = create(participant, topic, type_name, EndpointQos::parse(command)?, self.is_serialized)?;
        self.endpoints.insert(name.to_owned(), endpoint);
        Ok(())
    }

    /// `reason INDEX TIMEOUT_MS`
    fn reason(&mut self, command: &Command<'_>) -> Result<Answer> {
        let reasons = self.reasons.as_mut().context("there is no participant yet")?;
        Ok(Answer::reason(reasons.wait(command.number(1)?, command.millis(2)?)?))
    }

    fn revoke(&self, list: &str) -> Result<()> {
        let participant = self.participant.as_ref().context("there is no participant yet")?;
        Ok(participant.set_revocations(&format!("file:{list}"))?)
    }

    fn named(&self, command: &Command<'_>) -> Result<&Endpoint> {
        let name = command.word(1)?;
        self.endpoints.get(name).with_context(|| format!("no endpoint {name}"))
    }
}

/// The documents of DDS Security in a folder.
fn security(folder: &str) -> SecurityConfig {
    let file = |name: &str| format!("file:{folder}/{name}");
    SecurityConfig::new()
        .identity_ca(file("identity_ca.pem"))
        .identity_certificate(file("identity.pem"))
        .private_key(file("identity.key"))
        .permissions_ca(file("permissions_ca.pem"))
        .governance(file("governance.p7s"))
        .permissions(file("permissions.p7s"))
}

/// `write NAME KEY SEQ SIZE COUNT [PERIOD_US]`
fn load(command: &Command<'_>) -> Result<Load> {
    Ok(Load {
        key: command.number(2)?,
        first_seq: command.number(3)?,
        size_bytes: command.number(4)?,
        count: command.number(5)?,
        period: Duration::from_micros(command.number_or(6, 0)?),
    })
}

/// `wait NAME FIELD OP VALUE TIMEOUT_MS`
fn wait(endpoint: &Endpoint, command: &Command<'_>) -> Result<Answer> {
    let [field, operator] = [command.word(2)?, command.word(3)?];
    let (value, limit) = (command.number(4)?, command.millis(5)?);
    let reached = endpoint.news().wait(limit, || {
        let status = endpoint.status();
        status.holds(field, operator, value).then_some(status)
    });
    Ok(match reached {
        Some(status) => Answer::statuses(status, true),
        None => Answer::statuses(endpoint.status(), false),
    })
}
