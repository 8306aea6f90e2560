//! The peers, pairs and outages of the table.

use std::time::Duration;

use super::fault::{Kind, Outage};
use crate::error::{Error, Result};
use crate::peer::Program;

/// The longest outage of the short plan, in seconds.
const QUICK_MAX_S: u64 = 30;

/// Finds the program of a peer.
type Find = fn() -> Result<Program>;

/// The name of Peregrine among the peers.
pub(super) const OWN: &str = "peregrine";

/// The peers by the names that the command line uses.
pub const PEERS: [(&str, Find); 4] = [
    (OWN, Program::peregrine),
    ("cyclone-0.10", Program::cyclone_dds),
    ("cyclone-11", Program::cyclone_dds_11),
    ("fast", Program::fast_dds),
];

/// The program of a peer, by its name.
///
/// # Errors
/// When no peer has this name, or the environment does not say where the peers are.
pub fn program(name: &str) -> Result<Program> {
    match PEERS.iter().find(|(known, _)| *known == name) {
        Some((_, program)) => program(),
        None => Err(Error::Violated(format!("no peer is called {name}"))),
    }
}

/// A writing and a reading peer, by their names.
pub type PairOf = (&'static str, &'static str);

/// Peregrine with itself, with each vendor in both directions, and each vendor with itself.
pub fn pairs() -> Vec<PairOf> {
    let vendors = || PEERS[1..].iter().map(|(name, _)| *name);
    let mixed = vendors().flat_map(|vendor| [(OWN, vendor), (vendor, OWN)]);
    [(OWN, OWN)].into_iter().chain(mixed).chain(vendors().map(|vendor| (vendor, vendor))).collect()
}

/// The pairs that `WRITER:READER,…` names.
///
/// # Errors
/// The part that names no pair.
pub fn parse_pairs(text: &str) -> std::result::Result<Vec<PairOf>, String> {
    let peer = |name: &str| PEERS.iter().map(|(known, _)| *known).find(|known| *known == name);
    let pair = |part: &str| {
        let (writer, reader) = part.split_once(':')?;
        Some((peer(writer)?, peer(reader)?))
    };
    text.split(',').map(|part| pair(part).ok_or_else(|| part.to_owned())).collect()
}

/// The lengths in seconds of which an outage of this kind is tried; `is_quick` selects the shortest ones.
fn lengths_s(kind: Kind, is_quick: bool) -> &'static [u64] {
    let all: &[u64] = match kind {
        Kind::Multicast => &[5, 15, 40, 90],
        Kind::StopWriter | Kind::StopReader => &[5, 15, 40],
        Kind::UnicastToReader | Kind::UnicastToWriter => &[15, 40],
        Kind::Link => &[5, 30],
        Kind::KillWriter | Kind::KillReader => &[1, 15],
        Kind::MoveWriter | Kind::MoveReader => &[0],
    };
    if is_quick { &all[..all.iter().take_while(|s| **s <= QUICK_MAX_S).count()] } else { all }
}

/// The outages of the table, in its order.
pub fn outages(is_quick: bool) -> Vec<Outage> {
    let of_kind =
        |kind| lengths_s(kind, is_quick).iter().map(move |s| Outage { kind, length: Duration::from_secs(*s) });
    Kind::ALL.into_iter().flat_map(of_kind).collect()
}

#[cfg(test)]
mod tests {
    use super::{QUICK_MAX_S, outages, pairs, parse_pairs};

    #[test]
    fn every_vendor_is_paired_in_both_directions_and_with_itself() {
        let pairs = pairs();
        assert_eq!(pairs.len(), 10);
        for pair in [("peregrine", "fast"), ("fast", "peregrine"), ("fast", "fast"), ("peregrine", "peregrine")] {
            assert!(pairs.contains(&pair), "{pair:?}");
        }
    }

    #[test]
    fn pairs_are_parsed_and_unknown_peers_named() {
        let parsed = parse_pairs("peregrine:fast,cyclone-11:peregrine").unwrap();
        assert_eq!(parsed, [("peregrine", "fast"), ("cyclone-11", "peregrine")]);
        assert_eq!(parse_pairs("peregrine:slow").unwrap_err(), "peregrine:slow");
        assert_eq!(parse_pairs("peregrine").unwrap_err(), "peregrine");
    }

    #[test]
    fn quick_plan_leaves_out_long_outages_only() {
        let (quick, full) = (outages(true), outages(false));
        assert!(quick.iter().all(|outage| full.contains(outage)));
        assert!(quick.len() < full.len());
        assert!(quick.iter().all(|outage| outage.length.as_secs() <= QUICK_MAX_S));
        assert!(full.iter().all(|outage| quick.iter().any(|other| other.kind == outage.kind)));
    }
}
