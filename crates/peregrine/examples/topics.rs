//! Lists the topics of a domain, and their endpoints without a match: `cargo run -p peregrine --example topics --
//! [DOMAIN]`
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use peregrine::{DiscoveryEvent, DomainParticipant};

/// Time for discovery.
const LISTEN: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let domain = std::env::args().nth(1).map_or(Ok(0), |text| text.parse())?;
    let participant = DomainParticipant::new(domain)?;
    let mut events = participant.discovery_events();
    let end = Instant::now() + LISTEN;
    while let Some(event) = events.wait_next(end.saturating_duration_since(Instant::now())) {
        match event {
            DiscoveryEvent::ParticipantFound(data) => println!("participant {} of vendor {}", data.prefix, data.vendor),
            DiscoveryEvent::PublicationFound(data) => println!("  writer {} of {}", data.guid, data.topic_name),
            DiscoveryEvent::SubscriptionFound(data) => println!("  reader {} of {}", data.guid, data.topic_name),
            _ => {}
        }
    }
    for topic in participant.discovered_topics() {
        println!("topic {}: type {}{}", topic.name, topic.type_name, if topic.has_key { ", with a key" } else { "" });
    }
    Ok(())
}
