//! INFO_REPLY and INFO_REPLY_IP4: the addresses for replies to the following submessages.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use alloc::vec::Vec;

use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::locator::Locator;

/// INFO_REPLY (RTPS 2.5 §8.3.8.9, §9.4.5.10).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x0f      |X|X|X|X|X|X|M|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |             unicast: number of locators, locators             |
/// |           M: multicast: number of locators, locators          |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InfoReply<'a> {
    /// The addresses for replies to one participant.
    pub unicast: LocatorList<'a>,
    /// The addresses for replies to several participants.
    pub multicast: Option<LocatorList<'a>>,
}

/// INFO_REPLY_IP4 (RTPS 2.5 §9.4.5.15).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x0d      |X|X|X|X|X|X|M|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                     unicast: address, port                    |
/// |                  M: multicast: address, port                  |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoReplyIp4 {
    /// The address for replies to one participant.
    pub unicast: Locator,
    /// The address for replies to several participants.
    pub multicast: Option<Locator>,
}

/// Locators, on the wire or in memory.
#[derive(Clone, Copy)]
pub struct LocatorList<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    Wire(&'a [[u8; Locator::LEN]], Endianness),
    Memory(&'a [Locator]),
}

const MULTICAST: u8 = 0x02;

impl<'a> InfoReply<'a> {
    pub(super) fn parse(flags: u8, body: &'a [u8]) -> Result<Self, Fault> {
        let endianness = Endianness::from_flags(flags);
        let mut fields = Cursor::new(body, endianness);
        let unicast = LocatorList::parse(&mut fields, endianness)?;
        let multicast = match flags & MULTICAST {
            0 => None,
            _ => Some(LocatorList::parse(&mut fields, endianness)?),
        };
        Ok(Self { unicast, multicast })
    }

    /// Appends the submessage.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let flags = if self.multicast.is_some() { MULTICAST } else { 0 };
        let mut emitter = Emitter::begin(out, endianness, SubmessageId::INFO_REPLY, flags);
        self.unicast.emit(&mut emitter);
        if let Some(multicast) = self.multicast {
            multicast.emit(&mut emitter);
        }
        emitter.finish();
    }
}

impl<'a> LocatorList<'a> {
    /// A list for sending.
    #[must_use]
    pub const fn new(locators: &'a [Locator]) -> Self {
        Self(Source::Memory(locators))
    }

    /// The number of locators.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Wire(locators, _) => locators.len(),
            Source::Memory(locators) => locators.len(),
        }
    }

    /// Whether the list has no locator.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The locators, of any kind.
    pub fn iter(&self) -> impl Iterator<Item = Locator> + use<'a> {
        let (wire, memory) = match self.0 {
            Source::Wire(octets, endianness) => (Some((octets, endianness)), None),
            Source::Memory(locators) => (None, Some(locators)),
        };
        let wire = wire.into_iter().flat_map(|(octets, e)| octets.iter().map(move |&o| e.locator(o)));
        wire.chain(memory.into_iter().flatten().copied())
    }

    fn parse(fields: &mut Cursor<'a>, endianness: Endianness) -> Result<Self, Fault> {
        let count = usize::try_from(fields.u32()?).map_err(|_| Fault::Truncated)?;
        let octets = fields.slice(count.checked_mul(Locator::LEN).ok_or(Fault::Truncated)?)?;
        Ok(Self(Source::Wire(octets.as_chunks().0, endianness)))
    }

    fn emit(&self, emitter: &mut Emitter<'_>) {
        emitter.u32(u32::try_from(self.len()).unwrap_or(u32::MAX));
        for locator in self.iter() {
            emitter.i32(locator.kind).u32(locator.port).octets(&locator.address);
        }
    }
}

impl InfoReplyIp4 {
    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(body, Endianness::from_flags(flags));
        let unicast = parse_ip4(&mut fields)?;
        let multicast = if flags & MULTICAST != 0 { Some(parse_ip4(&mut fields)?) } else { None };
        Ok(Self { unicast, multicast })
    }

    /// Appends the submessage. Only the last four bytes of an address are sent.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let flags = if self.multicast.is_some() { MULTICAST } else { 0 };
        let mut emitter = Emitter::begin(out, endianness, SubmessageId::INFO_REPLY_IP4, flags);
        for locator in [Some(self.unicast), self.multicast].into_iter().flatten() {
            let [.., a, b, c, d] = locator.address;
            emitter.u32(u32::from_be_bytes([a, b, c, d])).u32(locator.port);
        }
        emitter.finish();
    }
}

/// The address is one number, with the first byte of the dotted form as its most significant byte (RTPS 2.5 §9.4.3.1).
fn parse_ip4(fields: &mut Cursor<'_>) -> Result<Locator, Fault> {
    let address = Ipv4Addr::from_bits(fields.u32()?);
    let port = fields.u32()?;
    Ok(Locator { port, ..Locator::from(SocketAddr::new(IpAddr::V4(address), 0)) })
}

impl PartialEq for LocatorList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for LocatorList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for InfoReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INFO_REPLY {:?}", self.unicast)?;
        self.multicast.iter().try_for_each(|list| write!(f, " multicast {list:?}"))
    }
}

impl fmt::Display for InfoReplyIp4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INFO_REPLY_IP4 {}", self.unicast)?;
        self.multicast.iter().try_for_each(|locator| write!(f, " multicast {locator}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip};
    use super::*;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    fn locator(text: &str) -> Locator {
        Locator::from(text.parse::<SocketAddr>().unwrap())
    }

    #[test]
    fn encoding_equals_literal_bytes() {
        let unicast = [locator("10.1.2.3:7411")];
        let info = InfoReply { unicast: LocatorList::new(&unicast), multicast: None };
        assert_encoding(
            Submessage::InfoReply(info),
            "0f011c00 01000000 01000000 f31c0000 00000000 00000000 00000000 0a010203",
            "0f00001c 00000001 00000001 00001cf3 00000000 00000000 00000000 0a010203",
        );
        assert_eq!(info.to_string(), "INFO_REPLY [udp/10.1.2.3:7411]");
        let both = InfoReplyIp4 { unicast: locator("10.1.2.3:7411"), multicast: Some(locator("239.255.0.1:7401")) };
        assert_encoding(
            Submessage::InfoReplyIp4(both),
            "0d031000 0302010a f31c0000 0100ffef e91c0000",
            "0d020010 0a010203 00001cf3 efff0001 00001ce9",
        );
        assert_eq!(both.to_string(), "INFO_REPLY_IP4 udp/10.1.2.3:7411 multicast udp/239.255.0.1:7401");
    }

    #[test]
    fn count_above_available_bytes_is_rejected() {
        assert_fault("0f010400 ffffffff", Fault::Truncated);
        assert_fault("0f010400 01000000", Fault::Truncated);
        assert_fault("0f030400 00000000", Fault::Truncated);
        assert_fault("0d030800 0302010a f31c0000", Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(locators in proptest::collection::vec((any::<i32>(), any::<u32>(), any::<[u8; 16]>()), 0..5)) {
            let locators: Vec<_> =
                locators.into_iter().map(|(kind, port, address)| Locator { kind, port, address, scope: 0 }).collect();
            let list = LocatorList::new(&locators);
            assert_round_trip(Submessage::InfoReply(InfoReply { unicast: list, multicast: Some(list) }));
        }
    }
}
