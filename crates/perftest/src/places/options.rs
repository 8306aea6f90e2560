//! Options of a process, adapted to its place.

use crate::campaign::placement::{Place, Placement};
use crate::cli::UsageError;
use crate::error::Error;

/// Options for the end at `place`. With two ends, each gets its interface and the address of the other, unless the
/// options contain these. An interface of one machine only is then omitted.
///
/// # Errors
/// The two ends have no addresses of the requested kind.
pub(crate) fn placed(words: &[String], placement: &dyn Placement, place: Place) -> Result<Vec<String>, Error> {
    let (Some(near), Some(far)) = (placement.address(Place::Near), placement.address(Place::Far)) else {
        return Ok(words.to_vec());
    };
    let (own, other) = if place == Place::Near { (near, far) } else { (far, near) };
    let mut placed = without_loopback(words);
    let has = |names: &[&str]| placed.iter().any(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name)));
    let (has_interface, has_peer) = (has(&["-nic", "-allowInterfaces"]), has(&["-peer"]));
    if !(has_interface && has_peer) && own.is_ipv4() && has(&["UDPv6", "-enableUDPv6"]) {
        return Err(usage("Between these places UDPv6 needs -nic, and a -peer for the address of each side."));
    }
    if !has_interface {
        placed.extend(["-nic".into(), own.to_string()]);
    }
    if !has_peer {
        placed.extend(["-peer".into(), other.to_string()]);
    }
    Ok(placed)
}

fn without_loopback(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let names_interface = word.eq_ignore_ascii_case("-nic") || word.eq_ignore_ascii_case("-allowInterfaces");
        if names_interface && rest.next_if(|next| matches!(next.as_str(), "lo" | "127.0.0.1")).is_some() {
            continue;
        }
        kept.push(word.clone());
    }
    kept
}

pub(super) fn usage(line: &str) -> Error {
    Error::Usage(UsageError { lines: vec![line.into()] })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::process::Command;

    use super::*;
    use crate::campaign::placement::ThisMachine;

    struct TwoEnds;

    impl Placement for TwoEnds {
        fn description(&self) -> String {
            "two ends".into()
        }

        fn command(&self, _: Place, _: &[String]) -> Result<Command, Error> {
            Ok(Command::new("true"))
        }

        fn address(&self, place: Place) -> Option<IpAddr> {
            Some([10, 0, 0, if place == Place::Near { 1 } else { 2 }].into())
        }
    }

    fn far(line: &str) -> String {
        let words: Vec<_> = line.split_whitespace().map(String::from).collect();
        placed(&words, &TwoEnds, Place::Far).map_or_else(|error| error.to_string(), |words| words.join(" "))
    }

    #[test]
    fn each_end_gets_the_address_of_the_other() {
        assert_eq!(far("-raw -nic 127.0.0.1 -keyed"), "-raw -keyed -nic 10.0.0.2 -peer 10.0.0.1");
        assert_eq!(far("-allowinterfaces lo"), "-nic 10.0.0.2 -peer 10.0.0.1");
        let words = ["-domain".to_owned(), "7".to_owned()];
        assert_eq!(placed(&words, &TwoEnds, Place::Near).unwrap().join(" "), "-domain 7 -nic 10.0.0.1 -peer 10.0.0.2");
    }

    #[test]
    fn addresses_given_by_options_stay() {
        assert_eq!(far("-nic eth1 -peer x"), "-nic eth1 -peer x");
        assert_eq!(far("-nic eth1"), "-nic eth1 -peer 10.0.0.1");
        assert_eq!(
            far("-transport UDPv6 -nic eth1 -peer fe80::1%eth1"),
            "-transport UDPv6 -nic eth1 -peer fe80::1%eth1"
        );
        assert!(far("-transport UDPv6").contains("UDPv6 needs -nic"));
    }

    #[test]
    fn options_of_one_machine_stay_unchanged() {
        let words = ["-nic".to_owned(), "127.0.0.1".to_owned()];
        assert_eq!(placed(&words, &ThisMachine, Place::Near).unwrap(), words);
    }
}
