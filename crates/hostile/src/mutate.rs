//! Mutation of messages.

/// One of `messages`, usually damaged: with flipped bits, truncated, spliced with another message, with extreme
/// numbers, with exchanged endpoints, or replaced by noise.
pub fn mutate(rng: &mut fastrand::Rng, messages: &[Vec<u8>]) -> Vec<u8> {
    let pick = |rng: &mut fastrand::Rng| &messages[rng.usize(0..messages.len())];
    let mut out = pick(rng).clone();
    match rng.u8(0..12) {
        0 => {
            out.truncate(if rng.bool() { 20 } else { 0 });
            let len = rng.usize(0..1400);
            out.extend(std::iter::repeat_with(|| rng.u8(..)).take(len));
        }
        1..=3 => (0..rng.u8(1..8)).for_each(|_| {
            let at = rng.usize(0..out.len());
            out[at] ^= 1 << rng.u8(0..8);
        }),
        4 => out.truncate(rng.usize(0..out.len())),
        5 => {
            let other = pick(rng);
            out.truncate(rng.usize(20..=out.len()));
            out.extend_from_slice(&other[rng.usize(20..=other.len())..]);
        }
        6 | 7 => (0..rng.u8(1..4)).for_each(|_| {
            let extremes = [0_u32, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff, 256, 65_536];
            let at = rng.usize(5..out.len() / 4) * 4;
            out[at..at + 4].copy_from_slice(&extremes[rng.usize(0..extremes.len())].to_le_bytes());
        }),
        8 => (0..rng.u8(1..6)).for_each(|_| {
            let other = pick(rng);
            if out.len() + other.len() < 8000 {
                out.extend_from_slice(&other[20..]);
            }
        }),
        9 => {
            // The two words after a submessage header name endpoints.
            let at = 20 + 16 + 12 + 4 + 4 * rng.usize(0..3);
            if out.len() >= at + 4 {
                out[at..at + 4].copy_from_slice(&[
                    0,
                    rng.u8(0..3),
                    rng.u8(0..6),
                    [0xc2, 0xc7, 2, 3, 4, 7][rng.usize(0..6)],
                ]);
            }
        }
        _ => {}
    }
    out
}

/// Recorded messages of Cyclone DDS and Fast DDS.
///
/// # Panics
/// A recording is damaged.
pub fn captured() -> Vec<Vec<u8>> {
    let files = [include_str!("captured/cyclone_dds.hex"), include_str!("captured/fast_dds.hex")];
    let lines = files.iter().flat_map(|file| file.lines()).filter(|line| !line.starts_with('#'));
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let datagrams: Vec<Vec<u8>> = lines.map(|line| line.as_bytes().chunks(2).map(octet).collect()).collect();
    assert!(datagrams.iter().all(|datagram| datagram.starts_with(b"RTPS") && datagram.len() >= 24));
    assert!(datagrams.len() > 20, "only {} datagrams", datagrams.len());
    datagrams
}
