//! Endpoints without room, and their announcement when there is room again.

use super::origin::Origin;
use super::*;
use crate::limits::DISCOVERY_BYTES_OF_ADDRESSES;
use crate::locator::Source;

const OTHERS: usize = 64;

fn origin(number: usize) -> Origin {
    Origin::of(Source::Datagram(address(1000 + number as u32, 1)))
}

/// Others at many addresses fill the memory of host 1 for discovery data, or give everything back.
fn fill(domain: &mut Domain, fills: bool) {
    let (before, after) = if fills { (0, DISCOVERY_BYTES_MAX / OTHERS) } else { (DISCOVERY_BYTES_MAX / OTHERS, 0) };
    (0..OTHERS).for_each(|number| domain.at(1).discovery_memory.change(origin(number), before, after));
}

/// Host 1 without room for all endpoints of host 2, which host 1 takes for one of this vendor.
fn crowded(vendor: VendorId, endpoints: u32) -> Domain {
    let mut domain = Domain::new([]);
    let now = domain.now;
    domain.participants.extend([1, 2].map(|host| (host, Participant::new(now, config(host)))));
    domain.vendors.insert(2, vendor);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.run(Span::from_secs(1));
    fill(&mut domain, true);
    for key in 0..endpoints {
        domain.put_writer(2, publication(2, key, "other"));
        domain.put_reader(2, subscription(2, key, "topic"));
    }
    // The summaries of host 2 confirm what is known, and records of what was in doubt are given back.
    domain.run(Span::from_secs(10));
    assert!(domain.counters(1).drops.no_room > 0 && known(&mut domain) < 2 * endpoints as usize);
    domain
}

fn known(domain: &mut Domain) -> usize {
    let remote = &domain.at(1).remotes[&prefix(2)];
    remote.publications.len() + remote.subscriptions.len()
}

/// The announcements of endpoints that host 2 has sent since `from`.
fn announcements(domain: &Domain, from: usize) -> usize {
    let count = |message: &Sent| {
        let writers = Submessages::new(&message.bytes[20..]).filter_map(|submessage| match submessage {
            Ok(Submessage::Data(data)) => Some(data.writer),
            _ => None,
        });
        writers.filter(|writer| *writer != EntityId::SPDP_WRITER).count()
    };
    domain.sent[from..].iter().filter(|message| message.from == prefix(2)).map(count).sum()
}

#[test]
fn endpoints_without_room_are_known_and_matched_when_there_is_room() {
    for vendor in [VendorId::PEREGRINE, VendorId::CYCLONE] {
        // More of either kind than are remembered.
        let mut domain = crowded(vendor, 350);
        let missing = 700 - known(&mut domain);
        assert!(missing > 2 * crate::limits::REFUSED_NUMBERS_MAX, "{missing}");
        let sent = domain.sent.len();
        fill(&mut domain, false);
        domain.run(Span::from_secs(3));
        assert_eq!(known(&mut domain), 700, "{vendor:?}");
        let writer = &domain.at(1).writers[&EntityId::user_writer(1, false)];
        assert_eq!(writer.matched.len(), 350, "{vendor:?}");
        let repeated = announcements(&domain, sent);
        assert!((missing..missing + 100).contains(&repeated), "{vendor:?}: {repeated} for {missing}");
        // Later changes arrive as before.
        domain.put_writer(2, publication(2, 1000, "other"));
        domain.run(Span::from_millis(500));
        assert_eq!(known(&mut domain), 701, "{vendor:?}");
    }
}

#[test]
fn few_endpoints_without_room_are_announced_again_one_by_one() {
    let mut domain = crowded(VendorId::CYCLONE, 225);
    let missing = 450 - known(&mut domain);
    assert!(missing <= 2 * crate::limits::REFUSED_NUMBERS_MAX, "{missing}");
    domain.at(1).discovery_memory.change(origin(0), DISCOVERY_BYTES_MAX / OTHERS, 0);
    domain.put_writer(2, publication(2, 1000, "other"));
    let sent = domain.sent.len();
    domain.run(Span::from_secs(3));
    assert_eq!((known(&mut domain), announcements(&domain, sent)), (451, missing));
}

#[test]
fn nothing_is_announced_again_without_room() {
    let mut domain = crowded(VendorId::PEREGRINE, 350);
    let (sent, before) = (domain.sent.len(), known(&mut domain));
    domain.run(Span::from_secs(60));
    assert_eq!((announcements(&domain, sent), known(&mut domain)), (0, before));
}

#[test]
fn room_for_one_endpoint_after_the_other_does_not_repeat_all_each_second() {
    let mut domain = crowded(VendorId::PEREGRINE, 350);
    let (sent, missing) = (domain.sent.len(), 700 - known(&mut domain));
    for key in 0..60 {
        let (now, wall) = (domain.now, domain.wall());
        domain.at(1).remove_remote_endpoint(now, wall, publication(2, key, "other").guid);
        domain.run(Span::from_secs(1));
    }
    // At most after 2, 4, 8, 16 and 32 seconds.
    let repeated = announcements(&domain, sent);
    assert!((1..=5 * missing).contains(&repeated), "{repeated} for {missing}");
}

#[test]
fn announcements_of_a_vendor_that_repeats_nothing_are_not_awaited() {
    let mut domain = crowded(VendorId::FAST_DDS, 350);
    let before = known(&mut domain);
    fill(&mut domain, false);
    domain.run(Span::from_secs(3));
    assert_eq!(known(&mut domain), before);
    domain.put_writer(2, publication(2, 1000, "other"));
    domain.run(Span::from_millis(500));
    assert_eq!(known(&mut domain), before + 1, "later announcements wait");
}

#[test]
fn address_with_its_part_of_the_memory_has_no_more() {
    let mut domain = crowded(VendorId::PEREGRINE, 350);
    let held = domain.at(1).remotes[&prefix(2)].held_bytes();
    let part = DISCOVERY_BYTES_OF_ADDRESSES / (OTHERS + 1);
    assert!(held <= part && held > part - 3000, "{held} of {part}");
}
