//! Members of structures: DDS types, and optional ones.

use crate::decoder::Decoder;
use crate::encapsulation::{Extensibility, Representation};
use crate::encoder::Encoder;
use crate::error::{DecodeError, EncodeError};
use crate::plain::MemberLayout;
use crate::sink::Sink;
use crate::types::{DdsType, unwritable};

mod sealed {
    /// Nobody else can name it, so nobody else can implement [`Member`](super::Member), on whose layout `unsafe` code
    /// relies.
    #[derive(Debug)]
    pub struct Seal;
}

/// A member of a structure: a DDS type, or an [`Option`] of one. No other type can be one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a member of a DDS structure",
    label = "not a DDS type",
    note = "derive it: #[derive(Clone, DdsType)]",
    note = "text is `String`, a character is `Char8` or `Wchar`, a map is `BTreeMap`"
)]
pub trait Member: Clone {
    /// The type of the value, when present.
    type Value: DdsType;
    /// Whether the member may be absent.
    const OPTIONAL: bool;
    /// Its least size in octets, as a member of a final or appendable structure.
    const MIN_SIZE: usize;
    /// Its layout within a plain structure.
    const LAYOUT: MemberLayout;

    #[doc(hidden)]
    fn seal(seal: sealed::Seal);

    /// The value, when present.
    fn value(&self) -> Option<&Self::Value>;
    /// The member with this value.
    fn present(value: Self::Value) -> Self;
    /// The member when it is not there: absent if optional, else the default.
    fn absent() -> Self;
    /// Sets to their defaults the members of the value that are not part of the key.
    fn clear_non_key(&mut self);

    /// Writes the member of a structure.
    ///
    /// # Errors
    /// Those of the value and of the sink.
    #[inline]
    fn encode_member<S: Sink>(
        &self,
        encoder: &mut Encoder<'_, S>,
        extensibility: Extensibility,
        id: u32,
        must_understand: bool,
    ) -> Result<(), EncodeError> {
        match (self.value(), extensibility) {
            (Some(value), Extensibility::Mutable) => encoder.put_parameter(id, must_understand, value),
            (None, Extensibility::Mutable) => Ok(()),
            (Some(value), _) if !Self::OPTIONAL => value.encode(encoder),
            (value, _) => match encoder.representation() {
                Representation::Xcdr1 => encoder.put_parameter_xcdr1(id, must_understand, false, |e| match value {
                    Some(value) => value.encode(e),
                    None => Ok(()),
                }),
                Representation::Xcdr2 => {
                    encoder.put(&[u8::from(value.is_some())])?;
                    value.map_or(Ok(()), |value| value.encode(encoder))
                }
            },
        }
    }

    /// Reads the member of a final or appendable structure.
    ///
    /// # Errors
    /// Those of the value.
    #[inline]
    fn decode_member(decoder: &mut Decoder<'_>, extensibility: Extensibility) -> Result<Self, DecodeError> {
        if decoder.is_absent(extensibility, Self::MIN_SIZE) {
            return Ok(Self::absent());
        }
        let mut member = None;
        visit_member::<Self>(decoder, |d| {
            member = Some(Self::Value::decode(d)?);
            Ok(())
        })?;
        Ok(member.map_or_else(Self::absent, Self::present))
    }

    /// Reads the value of a member of a mutable structure, which fills the decoder's window.
    ///
    /// # Errors
    /// Those of the value.
    #[inline]
    fn decode_parameter(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        if Self::OPTIONAL && decoder.remaining() == 0 {
            return Ok(Self::absent());
        }
        Self::Value::decode(decoder).map(Self::present)
    }

    /// Moves behind the member of a final or appendable structure.
    ///
    /// # Errors
    /// Those of the value.
    #[inline]
    fn skip_member(decoder: &mut Decoder<'_>, extensibility: Extensibility) -> Result<(), DecodeError> {
        if decoder.is_absent(extensibility, Self::MIN_SIZE) {
            return Ok(());
        }
        visit_member::<Self>(decoder, Self::Value::skip)
    }

    /// Moves behind the member of a final or appendable structure and writes its KeyHolder in the form that is hashed.
    ///
    /// # Errors
    /// Those of the value.
    #[inline]
    fn transcode_member<S: Sink>(
        decoder: &mut Decoder<'_>,
        extensibility: Extensibility,
        encoder: &mut Encoder<'_, S>,
    ) -> Result<(), DecodeError> {
        if decoder.is_absent(extensibility, Self::MIN_SIZE) {
            return transcode_absent::<Self, S>(decoder, encoder);
        }
        let mut present = false;
        visit_member::<Self>(decoder, |d| {
            present = true;
            transcode_present::<Self, S>(d, encoder)
        })?;
        if present { Ok(()) } else { transcode_absent::<Self, S>(decoder, encoder) }
    }

    /// Writes the KeyHolder of the member `id` of the mutable structure whose members start here.
    ///
    /// # Errors
    /// Those of the value.
    fn transcode_parameter<S: Sink>(
        members: &Decoder<'_>,
        id: u32,
        encoder: &mut Encoder<'_, S>,
    ) -> Result<(), DecodeError> {
        match members.find_parameter(id)? {
            Some(value) if Self::OPTIONAL && value.remaining() == 0 => transcode_absent::<Self, S>(members, encoder),
            Some(mut value) => transcode_present::<Self, S>(&mut value, encoder),
            None => transcode_absent::<Self, S>(members, encoder),
        }
    }
}

impl<T: DdsType> Member for T {
    type Value = T;
    const OPTIONAL: bool = false;
    const MIN_SIZE: usize = <T as DdsType>::MIN_SIZE;
    const LAYOUT: MemberLayout = T::LAYOUT.erase();

    fn seal(_: sealed::Seal) {}

    #[inline]
    fn value(&self) -> Option<&T> {
        Some(self)
    }

    #[inline]
    fn present(value: T) -> Self {
        value
    }

    fn absent() -> Self {
        T::default_value()
    }

    fn clear_non_key(&mut self) {
        DdsType::clear_non_key(self);
    }
}

impl<T: DdsType> Member for Option<T> {
    type Value = T;
    const OPTIONAL: bool = true;
    /// An absent one is an octet in XCDR2 and a parameter header in XCDR1.
    const MIN_SIZE: usize = 1;
    const LAYOUT: MemberLayout = MemberLayout::NONE;

    fn seal(_: sealed::Seal) {}

    #[inline]
    fn value(&self) -> Option<&T> {
        self.as_ref()
    }

    #[inline]
    fn present(value: T) -> Self {
        Some(value)
    }

    fn absent() -> Self {
        None
    }

    fn clear_non_key(&mut self) {
        if let Some(value) = self {
            value.clear_non_key();
        }
    }
}

/// Calls `visit` at the value of a member of a final or appendable structure, unless the member is absent.
#[inline]
fn visit_member<M: Member>(
    decoder: &mut Decoder<'_>,
    visit: impl FnOnce(&mut Decoder<'_>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    if !M::OPTIONAL {
        return visit(decoder);
    }
    match decoder.representation() {
        Representation::Xcdr1 => {
            let parameter = decoder.begin_optional_xcdr1()?;
            if decoder.remaining() > 0 {
                visit(decoder)?;
            }
            decoder.end_parameter(parameter);
            Ok(())
        }
        Representation::Xcdr2 => {
            if bool::decode(decoder)? {
                visit(decoder)?;
            }
            Ok(())
        }
    }
}

#[inline]
fn transcode_present<M: Member, S: Sink>(
    decoder: &mut Decoder<'_>,
    encoder: &mut Encoder<'_, S>,
) -> Result<(), DecodeError> {
    if M::OPTIONAL {
        encoder.put(&[1]).map_err(|error| unwritable(decoder, error))?;
    }
    M::Value::transcode_key(decoder, encoder)
}

fn transcode_absent<M: Member, S: Sink>(
    decoder: &Decoder<'_>,
    encoder: &mut Encoder<'_, S>,
) -> Result<(), DecodeError> {
    M::absent().encode_member(encoder, Extensibility::Final, 0, false).map_err(|error| unwritable(decoder, error))
}
