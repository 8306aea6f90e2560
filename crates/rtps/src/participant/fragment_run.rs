//! A fast path for consecutive fragments of one sample, in messages that differ only in the fragment's number and
//! payload: the receiver parses the common part once.

use super::event::Delivery;
use crate::reader::SampleMeta;
use crate::receiver::Input;
use crate::seq::FragmentNumber;
use crate::wire::{DataFrag, DataFragHead, Endianness, Header, Submessages};

/// The content of the previous message, if that was a single fragment for one reader.
///
/// Valid for consecutive messages without another call to the participant in between.
#[derive(Debug, Default)]
pub struct FragmentRun<'m> {
    last: Option<FragmentTemplate<'m>>,
}

#[derive(Debug)]
struct FragmentTemplate<'m> {
    /// The message up to the fragment's number, and from there to its bytes.
    head: (&'m [u8], &'m [u8]),
    endianness: Endianness,
    delivery: Delivery,
    meta: SampleMeta,
    fragment: DataFrag<'m>,
}

impl<'m> FragmentRun<'m> {
    /// The recipient and content of this message, if it differs from the previous one only in the fragment.
    #[inline]
    pub(super) fn follow(&self, message: &'m [u8]) -> Option<(Delivery, Input<'m>)> {
        let last = self.last.as_ref()?;
        let (before, rest) = message.split_at_checked(last.head.0.len())?;
        let (number, rest) = rest.split_first_chunk()?;
        let (behind, octets) = rest.split_at_checked(last.head.1.len())?;
        if octets.len() != last.fragment.payload.len() || before != last.head.0 || behind != last.head.1 {
            return None;
        }
        let number = match last.endianness {
            Endianness::Little => u32::from_le_bytes(*number),
            Endianness::Big => u32::from_be_bytes(*number),
        };
        let fragment = last.fragment.with(FragmentNumber(number), octets)?;
        Some((last.delivery, Input::DataFrag(last.meta, fragment)))
    }

    /// Ends the run, because the message was not a single fragment.
    pub(super) fn end(&mut self) {
        self.last = None;
    }

    /// Starts a run after a message with one input: a fragment for one reader.
    pub(super) fn begin(&mut self, message: &'m [u8], delivery: Delivery, meta: SampleMeta) {
        self.last = FragmentTemplate::of(message, delivery, meta);
    }
}

impl<'m> FragmentTemplate<'m> {
    /// `None` unless the message consists of an optional INFO_DST for this participant, an optional time stamp, and a
    /// fragment without inline QoS.
    fn of(message: &'m [u8], delivery: Delivery, meta: SampleMeta) -> Option<Self> {
        let (_, rest) = Header::parse(message).ok()?;
        let mut submessages = Submessages::new(rest);
        submessages.next_info_destination();
        submessages.next_timestamp();
        let fragment_at = message.len().checked_sub(submessages.remaining().len())?;
        let flags = submessages.remaining().get(1).copied()?;
        let fragment = submessages.next_data_frag()?;
        let octets_at = message.len().checked_sub(fragment.payload.len())?;
        if octets_at != fragment_at.checked_add(DataFragHead::LEN)? || !submessages.remaining().is_empty() {
            return None;
        }
        let (before, rest) = message.split_at_checked(fragment_at.checked_add(DataFragHead::STARTING)?)?;
        let (_number, rest) = rest.split_first_chunk::<4>()?;
        let behind = rest.get(..DataFragHead::LEN - DataFragHead::STARTING - 4)?;
        let endianness = Endianness::from_flags(flags);
        Some(Self { head: (before, behind), endianness, delivery, meta, fragment })
    }
}
