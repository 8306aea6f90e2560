//! Bytes that identify their sample and their position in it.
//!
//! Each word of eight bytes is `base + position × step`, where `base` derives from the number of the sample. A sample
//! that was mixed with another one, shifted, truncated, or remained in a buffer differs somewhere. Writing and checking
//! pass through memory once and need no table, so they cost little more than a copy.
//!
//! At the highest rates, writing and checking all of a large sample would dominate the measurement. There at most
//! [`MAX_WORDS`] words of each sample carry the pattern, spread over the sample. They move by one word with each
//! sample, so that every byte is covered in turn.

/// Odd, so that positions do not repeat; all of its bytes differ.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD: usize = size_of::<u64>();

/// Most words of a sample that [`write_some`] writes and [`are_some_intact`] checks, besides the bytes after the last
/// whole word.
pub const MAX_WORDS: usize = 32;
/// [`MAX_WORDS`] in bytes.
pub const MAX_LEN: usize = MAX_WORDS * WORD;

/// Fills `bytes` as those of sample `number`.
pub fn write(bytes: &mut [u8], number: u64) {
    let mut word = base(number);
    let (words, rest) = bytes.as_chunks_mut::<WORD>();
    for place in words {
        *place = word.to_le_bytes();
        word = word.wrapping_add(STEP);
    }
    let last = word.to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Whether `bytes` are those of sample `number`.
#[must_use]
pub fn is_intact(bytes: &[u8], number: u64) -> bool {
    let mut word = base(number);
    let (words, rest) = bytes.as_chunks::<WORD>();
    // Without an early end, so that a good sample, the usual case, is compared at the speed of memory.
    let mut difference = 0;
    for place in words {
        difference |= u64::from_le_bytes(*place) ^ word;
        word = word.wrapping_add(STEP);
    }
    let last = word.to_le_bytes();
    difference == 0 && rest == &last[..rest.len()]
}

/// Fills some of `bytes` with the pattern of sample `number`, and does not change the others.
pub fn write_some(bytes: &mut [u8], number: u64) {
    if bytes.len() <= MAX_LEN {
        return write(bytes, number);
    }
    let (words, rest) = bytes.as_chunks_mut::<WORD>();
    for place in places(words.len(), number) {
        if let Some(bytes) = words.get_mut(place) {
            *bytes = word(number, place);
        }
    }
    let last = word(number, words.len());
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Copies the bytes that [`write_some`] writes for sample `number`, from a payload of the same length.
pub fn copy_some(bytes: &mut [u8], from: &[u8], number: u64) {
    if bytes.len() <= MAX_LEN {
        return bytes.copy_from_slice(from);
    }
    let ((words, rest), (from, from_rest)) = (bytes.as_chunks_mut::<WORD>(), from.as_chunks::<WORD>());
    for place in places(words.len(), number) {
        if let (Some(bytes), Some(from)) = (words.get_mut(place), from.get(place)) {
            *bytes = *from;
        }
    }
    rest.copy_from_slice(from_rest);
}

/// Whether the same of `bytes` are those of sample `number`.
#[must_use]
pub fn are_some_intact(bytes: &[u8], number: u64) -> bool {
    if bytes.len() <= MAX_LEN {
        return is_intact(bytes, number);
    }
    let (words, rest) = bytes.as_chunks::<WORD>();
    let last = word(number, words.len());
    rest == &last[..rest.len()]
        && places(words.len(), number).all(|place| words.get(place) == Some(&word(number, place)))
}

/// Indices of the words of sample `number` that carry the pattern.
pub fn places(words: usize, number: u64) -> impl Iterator<Item = usize> {
    let stride = words.div_ceil(MAX_WORDS).max(1);
    (number as usize % stride..words).step_by(stride)
}

/// The word of sample `number` at this index.
#[must_use]
pub fn word(number: u64, place: usize) -> [u8; WORD] {
    base(number).wrapping_add(STEP.wrapping_mul(place as u64)).to_le_bytes()
}

/// Far apart for neighbouring numbers, and not by a multiple of [`STEP`].
fn base(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ 0x5bd1_e995_1234_abcd
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(len: usize, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; len];
        write(&mut bytes, number);
        bytes
    }

    #[test]
    fn pattern_has_these_literal_bytes() {
        let word = base(1);
        let expected = [word.to_le_bytes(), word.wrapping_add(STEP).to_le_bytes()].concat();
        assert_eq!(sample(13, 1), expected[..13]);
        assert!(sample(0, 1).is_empty());
        assert!(is_intact(&[], 7));
    }

    #[test]
    fn buffer_that_was_never_written_is_not_intact() {
        for number in 0..1000 {
            assert!(!is_intact(&[0; 16], number) && !is_intact(&[0xff; 16], number));
        }
    }

    #[test]
    fn every_byte_of_a_large_sample_is_covered_in_turn() {
        const LEN: usize = 5_003;
        let stride = (LEN / WORD).div_ceil(MAX_WORDS) as u64;
        let mut bytes = vec![0; LEN];
        let mut checked = vec![false; LEN];
        for number in 100..100 + stride {
            write_some(&mut bytes, number);
            assert!(are_some_intact(&bytes, number) && !are_some_intact(&bytes, number + 1));
            let mut changed = 0;
            for at in 0..LEN {
                bytes[at] ^= 1;
                if !are_some_intact(&bytes, number) {
                    changed += 1;
                    checked[at] = true;
                }
                bytes[at] ^= 1;
            }
            assert!(changed <= MAX_LEN + WORD, "{changed}");
        }
        assert!(checked.into_iter().all(|byte| byte));
    }

    proptest! {
        #[test]
        fn partly_written_payload_is_intact(len in 0..5_000_usize, number in any::<u64>()) {
            let mut bytes = vec![0xaa; len];
            write_some(&mut bytes, number);
            prop_assert!(are_some_intact(&bytes, number));
        }

        #[test]
        fn partly_copied_payload_is_intact(len in 0..5_000_usize, number in any::<u64>()) {
            let (mut bytes, mut copy) = (vec![0xaa; len], vec![0xbb; len]);
            write_some(&mut bytes, number);
            copy_some(&mut copy, &bytes, number);
            prop_assert!(are_some_intact(&copy, number));
        }

        #[test]
        fn payload_of_earlier_sample_is_not_intact(len in 16..5_000_usize, number in 0..1_u64 << 40, distance in 1..1000_u64) {
            let mut bytes = vec![0; len];
            write_some(&mut bytes, number);
            prop_assert!(!are_some_intact(&bytes, number + distance));
        }

        #[test]
        fn written_payload_is_intact(len in 0..300_usize, number in any::<u64>()) {
            prop_assert!(is_intact(&sample(len, number), number));
        }

        #[test]
        fn single_changed_byte_is_detected(len in 1..300_usize, number in any::<u64>(), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
            let mut bytes = sample(len, number);
            bytes[at.index(len)] ^= flip;
            prop_assert!(!is_intact(&bytes, number));
        }

        #[test]
        fn payload_of_other_sample_is_not_intact(len in 16..300_usize, number in any::<u32>(), distance in 1..1000_u64) {
            let number = u64::from(number);
            prop_assert!(!is_intact(&sample(len, number), number + distance));
        }

        #[test]
        fn shifted_payload_is_not_intact(len in 64..300_usize, number in any::<u64>(), shift in 1..32_usize) {
            let bytes = sample(len, number);
            let mut shifted = bytes[shift..].to_vec();
            shifted.extend_from_slice(&bytes[..shift]);
            prop_assert!(!is_intact(&shifted, number));
        }
    }
}
