//! The reasons that Peregrine gives: events of security, and why endpoints do not match.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use peregrine::{DiscoveryEvent, DiscoveryEvents, DomainParticipant};

/// The greatest number of reasons that are kept.
const REASONS_MAX: usize = 4096;

/// The reasons since the participant was created, as text.
pub(crate) struct Reasons {
    events: DiscoveryEvents,
    seen: Vec<String>,
}

impl Reasons {
    pub(crate) fn of(participant: &DomainParticipant) -> Self {
        Self { events: participant.discovery_events(), seen: Vec::new() }
    }

    /// The reason with this number, from 0; `None` if there is none within `limit`.
    pub(crate) fn wait(&mut self, index: usize, limit: Duration) -> Result<Option<String>> {
        if index >= REASONS_MAX {
            bail!("only {REASONS_MAX} reasons are kept");
        }
        let end = Instant::now() + limit;
        while self.seen.len() <= index {
            let Some(event) = self.events.wait_next(end.saturating_duration_since(Instant::now())) else { break };
            self.seen.extend(reason_in(&event));
        }
        Ok(self.seen.get(index).cloned())
    }
}

fn reason_in(event: &DiscoveryEvent) -> Option<String> {
    match event {
        DiscoveryEvent::Security(event) => Some(event.to_string()),
        DiscoveryEvent::NotMatched { local, remote, reason } => Some(format!("{local} and {remote}: {reason}")),
        _ => None,
    }
}
