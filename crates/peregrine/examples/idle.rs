//! One participant with ten readers that nobody writes to, until standard input ends: what joining a domain costs.

#![forbid(unsafe_code)]

use peregrine::{DdsType, DomainParticipant, Error};

#[derive(Clone, Debug, DdsType)]
struct Reading {
    sensor: u32,
    value: f64,
}

fn main() -> Result<(), Error> {
    let participant = DomainParticipant::new(100)?;
    let readers = (0..10).map(|number| participant.topic::<Reading>(&format!("readings_{number}"))?.reader());
    let readers: Vec<_> = readers.collect::<Result<_, _>>()?;
    println!("{} readers", readers.len());
    // Whatever comes, or that nothing more can: it is time to leave.
    let _ = std::io::stdin().read_line(&mut String::new());
    Ok(())
}
