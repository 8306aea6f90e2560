//! Cuts a train into datagrams where the kernel or the NIC does not.

use super::message::{OutgoingDatagrams, SendMessages};
use super::{MAX_SEGMENTS, MAX_SLICES};
use crate::sys::MAX_INTERRUPTIONS;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::RawFd;

/// Each cut may divide one slice in two.
const MAX_PIECES: usize = MAX_SLICES + MAX_SEGMENTS;

/// Result of sending a train.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) calls: u64,
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    /// Why the rest was not sent.
    pub(super) error: Option<io::Error>,
}

/// Sends the concatenation of `slices` as datagrams of `segment_bytes`, the last of which may be shorter.
///
/// The caller has checked the limits [`MAX_SLICES`] and [`MAX_SEGMENTS`].
pub(super) fn send(
    fd: RawFd,
    slices: &[IoSlice<'_>],
    destination: Option<SocketAddr>,
    segment_bytes: NonZeroU16,
    flags: libc::c_int,
) -> Outcome {
    let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
    let mut ends = [0; MAX_SEGMENTS];
    let segments = cut(slices, segment_bytes, &mut pieces, &mut ends);
    let mut messages = SendMessages::<MAX_SEGMENTS>::new();
    let mut outcome = Outcome::default();
    let (mut sent, mut interruptions) = (0, 0);
    while sent < segments {
        let rest = (sent..segments).map(|segment| {
            let start = segment.checked_sub(1).map_or(0, |before| ends[before]);
            let slices = pieces.get(start..ends[segment]).unwrap_or_default();
            OutgoingDatagrams { slices, destination, segment_bytes: None }
        });
        outcome.calls += 1;
        match messages.send(fd, rest, flags) {
            Ok((accepted, bytes)) => {
                sent += accepted;
                outcome.datagrams += accepted as u64;
                outcome.bytes += bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted && interruptions < MAX_INTERRUPTIONS => {
                interruptions += 1;
            }
            Err(error) => {
                outcome.error = Some(error);
                break;
            }
        }
    }
    outcome
}

/// Divides `slices` into `pieces` so that segment `i` consists of the pieces `ends[i - 1]..ends[i]`, and returns the
/// number of segments. Bytes that exceed the arrays are left out.
fn cut<'a>(
    slices: &'a [IoSlice<'a>],
    segment_bytes: NonZeroU16,
    pieces: &mut [IoSlice<'a>],
    ends: &mut [usize],
) -> usize {
    let segment_bytes = usize::from(segment_bytes.get());
    let (mut piece, mut segment, mut room) = (0, 0, segment_bytes);
    for slice in slices {
        let mut rest: &[u8] = slice;
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(rest.len().min(room));
            let (Some(place), Some(end)) = (pieces.get_mut(piece), ends.get_mut(segment)) else { return segment };
            *place = IoSlice::new(head);
            piece += 1;
            *end = piece;
            room -= head.len();
            rest = tail;
            if room == 0 {
                segment += 1;
                room = segment_bytes;
            }
        }
    }
    if room < segment_bytes { segment + 1 } else { segment }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn segments_are_the_chunks_of_the_bytes(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            segment_bytes in 8_u16..60,
        ) {
            let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
            let mut ends = [0; MAX_SEGMENTS];
            let count = cut(&slices, NonZeroU16::new(segment_bytes).unwrap(), &mut pieces, &mut ends);
            let mut start = 0;
            let segments: Vec<Vec<u8>> = ends[..count]
                .iter()
                .map(|&end| pieces[std::mem::replace(&mut start, end)..end].iter().flat_map(|p| p.to_vec()).collect())
                .collect();
            let expected: Vec<Vec<u8>> =
                parts.concat().chunks(segment_bytes.into()).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(segments, expected);
        }
    }
}
