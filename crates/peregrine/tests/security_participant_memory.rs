//! The memory that a participant holds for each authenticated peer, counted by the allocator.

mod realm;

use std::process::Command;

use peregrine::security::{ProtectionKind, SecurityEvent};
use realm::newcomers::{Newcomers, run};
use realm::{Levels, PATIENCE, Realm, await_event, participant, reader};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const TEST: &str = "authenticated_participant_with_a_writer_takes_at_most_40_kib";
const ROLE: &str = "PEREGRINE_TEST_ROLE";
const DOMAIN: u32 = 93;
const TOPIC: &str = "open";
/// The first peers pay for what all share. Tables double at the same numbers in each run.
const WARM_UP: usize = 8;
const COUNTED: usize = 40;
const BYTES_MAX: usize = 40 << 10;

/// The peers are participants of a second process, so that only one side of each pair is counted.
#[test]
fn authenticated_participant_with_a_writer_takes_at_most_40_kib() {
    if std::env::var_os(ROLE).is_some() {
        return run(DOMAIN, TOPIC).unwrap();
    }
    let _profiler = dhat::Profiler::builder().testing().build();
    let encrypt = ProtectionKind::Encrypt;
    let levels = Levels { messages: ProtectionKind::Sign, discovery: encrypt, submessages: encrypt, payloads: encrypt };
    let realm = Realm::new(levels);
    let participant = participant(DOMAIN, realm.member("A", 2));
    let reader = reader(&participant, TOPIC);
    let mut events = participant.discovery_events();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([TEST, "--exact", "--nocapture"]).env(ROLE, "newcomers");
    let mut newcomers = Newcomers::start(command, &realm).unwrap();
    let mut bytes_after = |count: usize| {
        for _ in 0..count {
            newcomers.add().unwrap();
            await_event(&mut events, |event| matches!(event, SecurityEvent::KeysExchanged { .. }));
            reader.wait_and_take(PATIENCE).unwrap();
            // Later events belong to no other participant.
            while let Some(_late) = events.try_next() {}
        }
        dhat::HeapStats::get().curr_bytes
    };
    let before = bytes_after(WARM_UP);
    let each = (bytes_after(COUNTED) - before) / COUNTED;
    println!("{each} bytes for each participant");
    assert_eq!(participant.discovered_participants().len(), WARM_UP + COUNTED);
    assert!(each <= BYTES_MAX, "{each} bytes for each participant");
}
