//! Finds the members of final and appendable structures.

use crate::decoder::Decoder;
use crate::encapsulation::Extensibility;
use crate::error::DecodeError;
use crate::member::Member;
use crate::types::DdsType;

/// The position of an absent member. No value is at the start of a payload.
pub(crate) const ABSENT: usize = 0;

/// Moves to the value of a member of a final or appendable structure, and returns its position.
#[inline]
pub(crate) fn locate<M: Member>(decoder: &mut Decoder<'_>, extensibility: Extensibility) -> Result<usize, DecodeError> {
    if decoder.is_absent(extensibility, M::MIN_SIZE) || M::OPTIONAL && !bool::decode(decoder)? {
        return Ok(ABSENT);
    }
    Ok(decoder.place().position)
}
