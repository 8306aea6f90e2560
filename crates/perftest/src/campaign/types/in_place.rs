//! Samples of bytes in place, by the flat form of their type.

use peregrine::xtypes::flat::{Done, FlatError, FlatType};

use super::flat::{Octets, OctetsView, OctetsViewMut, SEQUENCE_FRAME_LEN};
use super::stamp::{Stamp, Stamped};
use crate::payload;

/// Bytes of an encapsulation header.
const HEADER_LEN: usize = 4;

impl Octets {
    /// Bytes of the payload of a sample of `data_len` bytes, with encapsulation header and padding.
    pub(in crate::campaign) fn payload_len(data_len: u64) -> usize {
        (data_len as usize).saturating_add(HEADER_LEN).next_multiple_of(4)
    }

    /// Builds a sample of `data_len` bytes; `fill` writes its data.
    pub(in crate::campaign) fn build<'x>(
        builder: <Self as FlatType>::Builder<'x>,
        stamp: &Stamp,
        data_len: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Done<'x, Self>, FlatError> {
        let len = data_len.saturating_sub(SEQUENCE_FRAME_LEN) as usize;
        builder
            .time(stamp.sent_ns as i64)?
            .id(stamp.id())?
            .intended(stamp.intended_ns)?
            .data_with(|mut bytes| {
                bytes.fill(len, fill)?;
                bytes.finish()
            })?
            .finish()
    }

    /// Sets the stamp of a built sample.
    pub(in crate::campaign) fn stamp_in_place(mut sample: OctetsViewMut<'_>, stamp: &Stamp) -> Result<(), FlatError> {
        sample.time_mut()?.set(stamp.sent_ns as i64);
        sample.id_mut()?.set(stamp.id());
        sample.intended_mut()?.set(stamp.intended_ns);
        Ok(())
    }
}

impl Stamped for OctetsView<'_> {
    fn stamp(&self) -> Stamp {
        Stamp::from_members(self.time(), self.id(), self.intended().to_le_bytes())
    }

    fn is_filled(&self, number: u64) -> bool {
        self.data().as_slice().is_some_and(|bytes| payload::are_some_intact(bytes, number))
    }
}

#[cfg(test)]
mod tests {
    use peregrine::xtypes::{Endianness, Representation, encode, encoded_len, flat};

    use super::*;
    use crate::campaign::types::SampleType;

    #[test]
    fn sample_built_in_place_equals_the_encoding() {
        let stamp = Stamp { writer: 3, warm_up: false, number: 12, intended_ns: 77, sent_ns: 99 };
        for data_len in [32, 33, 5_000] {
            let mut value = Octets::of_len(data_len);
            value.fill(stamp.id());
            value.set_stamp(&stamp);
            let mut bytes = vec![0; encoded_len(&*value, Representation::Xcdr2)];
            encode(&*value, Representation::Xcdr2, Endianness::NATIVE, &mut bytes).unwrap();

            let mut built = vec![0; Octets::payload_len(data_len)];
            let builder = flat::builder::<Octets>(&mut built).unwrap();
            let fill = |bytes: &mut [u8]| payload::write_some(bytes, stamp.id());
            let len = Octets::build(builder, &Stamp::default(), data_len, fill).unwrap().len();
            assert_eq!(len, built.len());
            Octets::stamp_in_place(flat::view_mut::<Octets>(&mut built).unwrap(), &stamp).unwrap();
            let view = flat::view::<Octets>(&built).unwrap();
            assert_eq!((view.stamp(), view.is_filled(stamp.id()), view.is_filled(7)), (stamp, true, false));
            assert_eq!(built, bytes, "{data_len}");
        }
    }
}
