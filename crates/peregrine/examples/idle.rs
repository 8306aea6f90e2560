//! One participant with ten readers that receive no samples, until standard input ends: the cost of joining a domain.
//!
//! `idle writers`: ten matching writers in another process of the host, which write no samples. Each program prints a
//! line when it is ready; the program of the writers is ready when all readers share memory with it.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use peregrine::{DdsType, DomainParticipant};

const COUNT: usize = 10;
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, DdsType)]
struct Reading {
    sensor: u32,
    value: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let participant = DomainParticipant::new(100)?;
    let topics = (0..COUNT).map(|number| participant.topic::<Reading>(&format!("readings_{number}")));
    if std::env::args().nth(1).as_deref() == Some("writers") {
        let writers: Vec<_> = topics.map(|topic| topic?.writer()).collect::<Result<_, peregrine::Error>>()?;
        wait_for_shared_memory(&participant)?;
        println!("{} writers", writers.len());
        wait_for_end();
    } else {
        let readers: Vec<_> = topics.map(|topic| topic?.reader()).collect::<Result<_, peregrine::Error>>()?;
        println!("{} readers", readers.len());
        wait_for_end();
    }
    Ok(())
}

fn wait_for_shared_memory(participant: &DomainParticipant) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    while participant.shared_memory_statistics().readers < COUNT as u64 {
        if start.elapsed() > PATIENCE {
            return Err("no ten readers share memory with this process".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Waits for input, or for the end of the input.
fn wait_for_end() {
    let _ = std::io::stdin().read_line(&mut String::new());
}
