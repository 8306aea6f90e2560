//! The stamp of a sample, and what carries it.

use peregrine::DdsType;

/// What every sample carries about itself, wherever its type keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the writer among those of its topic.
    pub writer: u16,
    /// Whether it belongs to the time before the measurement.
    pub warm_up: bool,
    /// Number of the sample, from 0 in the warm-up and again in the measurement.
    pub number: u64,
    /// When it was due, of the sender's clock.
    pub intended_ns: u64,
    /// When it left, of the sender's clock.
    pub sent_ns: u64,
}

const WARM_UP: u64 = 1 << 63;
const WRITER_SHIFT: u32 = 48;
const WRITER_MASK: u64 = (1 << 15) - 1;
const NUMBER_MASK: u64 = (1 << WRITER_SHIFT) - 1;

impl Stamp {
    /// Bytes of the stamp: of the two members that every type has, and of the time that is kept in its data.
    pub const LEN: usize = 24;

    /// The member `id`, which no other sample of the topic has.
    pub(in crate::campaign) fn id(&self) -> u64 {
        let warm_up = if self.warm_up { WARM_UP } else { 0 };
        warm_up | (u64::from(self.writer) & WRITER_MASK) << WRITER_SHIFT | self.number & NUMBER_MASK
    }

    /// From the members `time` and `id`, and the first bytes of the data.
    pub(super) fn from_members(time: i64, id: u64, intended: [u8; 8]) -> Self {
        Self {
            writer: (id >> WRITER_SHIFT & WRITER_MASK) as u16,
            warm_up: id & WARM_UP != 0,
            number: id & NUMBER_MASK,
            intended_ns: u64::from_le_bytes(intended),
            sent_ns: time as u64,
        }
    }

    /// As the first bytes of a raw datagram.
    pub(in crate::campaign) fn to_octets(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets.copy_from_slice([self.sent_ns, self.id(), self.intended_ns].map(u64::to_le_bytes).as_flattened());
        octets
    }

    /// `None` of a datagram that is too short.
    pub(in crate::campaign) fn of_octets(datagram: &[u8]) -> Option<Self> {
        let (words, _) = datagram.first_chunk::<{ Self::LEN }>()?.as_chunks::<8>();
        let &[time, id, intended] = words else { return None };
        Some(Self::from_members(i64::from_le_bytes(time), u64::from_le_bytes(id), intended))
    }
}

/// A sample as a receiver sees it: a value, or its bytes where they arrived.
pub(in crate::campaign) trait Stamped {
    /// The stamp it has.
    fn stamp(&self) -> Stamp;

    /// Whether it has the pattern of sample `number`.
    fn is_filled(&self, number: u64) -> bool;
}

/// A type of samples that carry a stamp.
pub(in crate::campaign) trait SampleType: DdsType + Stamped + Send + Sync + 'static {
    /// A sample whose serialized form, without encapsulation header, is of `data_len` bytes. Types with a size of their own
    /// have that.
    fn of_len(data_len: u64) -> Box<Self>;

    /// Puts a stamp on it.
    fn set_stamp(&mut self, stamp: &Stamp);

    /// Writes the pattern of sample `number` into what is neither stamp nor description, as [`payload::write_some`] does.
    ///
    /// [`payload::write_some`]: crate::payload::write_some
    fn fill(&mut self, number: u64);
}
