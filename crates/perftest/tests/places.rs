//! Errors in labs and hosts that are reported before any process starts.

mod common;

use std::process::Command;

use common::{PROGRAM, run, start_command};

#[test]
fn lab_mistakes_are_reported() {
    for (line, word) in [
        ("lab", "WORDS"),
        ("lab-inside -- load", "use: perftest lab"),
        ("lab -- doctor", "'doctor' does not run in a lab"),
        ("lab --link 5 -- load", "a rate is"),
        ("lab --loss 100% -- load", "a loss is"),
        ("lab --mtu 100 -- load", "1280..=65535"),
    ] {
        let outcome = run(line);
        assert_eq!(outcome.code, 255, "{line}: {outcome:?}");
        assert!(outcome.stderr.contains(word), "{line}: {}", outcome.stderr);
    }
}

#[test]
fn host_mistakes_are_reported() {
    for (line, word) in [
        ("characterize --hosts a", "two are needed"),
        ("load --hosts=-oProxyCommand=x,b", "begins with a dash"),
        ("load --addresses 10.0.0.1,10.0.0.2", "--hosts"),
        ("search --hosts a,b --addresses 10.0.0.1,b", "'b' is not an IP address"),
        ("ab --hosts a,b --ssh-config /nonexistent", "there is no such file"),
    ] {
        let outcome = run(line);
        assert_eq!(outcome.code, 255, "{line}: {outcome:?}");
        assert!(outcome.stderr.contains(word), "{line}: {}", outcome.stderr);
    }
}

#[test]
fn missing_ssh_names_its_package() {
    let mut command = Command::new(PROGRAM);
    command.env("PATH", "/nonexistent");
    let outcome = start_command(command, "load --hosts a,b").finish();
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (255, "Not found on the PATH: ssh. On Debian and Ubuntu: apt-get install openssh-client")
    );
}

/// When the input of a process ends, the process that started it has ended.
#[test]
fn tethered_process_ends_with_its_input() {
    let outcome = start_command(Command::new(PROGRAM), "tethered respond -- -raw -domain 78").finish();
    assert_eq!(outcome.code, 130, "{outcome:?}");
}
