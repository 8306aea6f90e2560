//! The stamp of a sample, and the types that carry it.

use peregrine::DdsType;

/// Data about a sample that every type carries in some members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the writer among those of its topic.
    pub writer: u16,
    /// Whether the sample belongs to the warm-up.
    pub warm_up: bool,
    /// Number of the sample, counted from 0 in the warm-up and again in the measurement.
    pub number: u64,
    /// Time at which the sample was due, on the sender's clock.
    pub intended_ns: u64,
    /// Time at which the sample was sent, on the sender's clock.
    pub sent_ns: u64,
}

const WARM_UP: u64 = 1 << 63;
const WRITER_SHIFT: u32 = 48;
const WRITER_MASK: u64 = (1 << 15) - 1;
const NUMBER_MASK: u64 = (1 << WRITER_SHIFT) - 1;

impl Stamp {
    /// Bytes of the stamp: two members that every type has, and the due time in its data.
    pub const LEN: usize = 24;

    /// The member `id`, unique among the samples of the topic.
    pub(in crate::campaign) fn id(&self) -> u64 {
        let warm_up = if self.warm_up { WARM_UP } else { 0 };
        warm_up | (u64::from(self.writer) & WRITER_MASK) << WRITER_SHIFT | self.number & NUMBER_MASK
    }

    /// Reads the members `time` and `id`, and the first bytes of the data.
    pub(super) fn from_members(time: i64, id: u64, intended: [u8; 8]) -> Self {
        Self {
            writer: (id >> WRITER_SHIFT & WRITER_MASK) as u16,
            warm_up: id & WARM_UP != 0,
            number: id & NUMBER_MASK,
            intended_ns: u64::from_le_bytes(intended),
            sent_ns: time as u64,
        }
    }

    /// The first bytes of a raw datagram.
    pub(in crate::campaign) fn to_octets(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes.copy_from_slice([self.sent_ns, self.id(), self.intended_ns].map(u64::to_le_bytes).as_flattened());
        bytes
    }

    /// `None` for a datagram that is too short.
    pub(in crate::campaign) fn of_octets(datagram: &[u8]) -> Option<Self> {
        let (words, _) = datagram.first_chunk::<{ Self::LEN }>()?.as_chunks::<8>();
        let &[time, id, intended] = words else { return None };
        Some(Self::from_members(i64::from_le_bytes(time), u64::from_le_bytes(id), intended))
    }
}

/// A received sample: a value, or its bytes in place.
pub(in crate::campaign) trait Stamped {
    /// Stamp of the sample.
    fn stamp(&self) -> Stamp;

    /// Whether the sample contains the pattern of sample `number`.
    fn is_filled(&self, number: u64) -> bool;
}

/// A type of samples that carry a stamp.
pub(in crate::campaign) trait SampleType: DdsType + Stamped + Send + Sync + 'static {
    /// A sample whose serialized form, without encapsulation header, has `data_len` bytes. Types with a fixed size
    /// ignore `data_len`.
    fn of_len(data_len: u64) -> Box<Self>;

    /// Sets the stamp.
    fn set_stamp(&mut self, stamp: &Stamp);

    /// Writes the pattern of sample `number` into the data, as [`payload::write_some`] does.
    ///
    /// [`payload::write_some`]: crate::payload::write_some
    fn fill(&mut self, number: u64);
}
