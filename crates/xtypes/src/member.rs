//! Members of structures: DDS types, and optional ones.

use crate::decoder::Decoder;
use crate::encapsulation::{Extensibility, Representation};
use crate::encoder::{Encoder, OpenParameter};
use crate::error::{DecodeError, EncodeError};
use crate::plain::layout::MemberLayout;
use crate::plain::obstacle::{Obstacle, Reason};
use crate::sink::Sink;
use crate::types::{DdsType, unwritable};

mod sealed {
    /// Other modules cannot name this type, so they cannot implement [`Member`](super::Member), on whose layout
    /// `unsafe` code relies.
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
    /// Its least size in bytes, as a member of a final or appendable structure.
    const MIN_SIZE: usize;
    /// Its layout within a plain structure.
    const LAYOUT: MemberLayout;

    #[doc(hidden)]
    fn seal(seal: sealed::Seal);

    /// [`DdsType::obstacle`], of a member.
    #[doc(hidden)]
    fn obstacle(representation: Representation) -> Option<Obstacle>;

    /// The value, when present.
    fn value(&self) -> Option<&Self::Value>;
    /// The member with this value.
    fn present(value: Self::Value) -> Self;
    /// The member when the payload does not contain it: absent if optional, else the default.
    fn absent() -> Self;
    /// Sets to their defaults the members of the value that are not part of the key.
    fn clear_non_key(&mut self);

    /// Writes the member of a structure.
    ///
    /// # Errors
    /// The errors of the value and of the sink.
    #[inline]
    fn encode_member<S: Sink>(
        &self,
        encoder: &mut Encoder<'_, S>,
        extensibility: Extensibility,
        id: u32,
        must_understand: bool,
    ) -> Result<(), EncodeError> {
        let Some(value) = self.value() else {
            return encode_absent(encoder, extensibility, id, must_understand);
        };
        let open = begin_present::<Self, S>(encoder, extensibility, id, must_understand)?;
        value.encode(encoder)?;
        end_present(encoder, open)
    }

    /// Writes the member of a structure that has its default: absent if optional. Makes no value.
    ///
    /// # Errors
    /// The errors of the sink.
    fn encode_default_member<S: Sink>(
        encoder: &mut Encoder<'_, S>,
        extensibility: Extensibility,
        id: u32,
        must_understand: bool,
    ) -> Result<(), EncodeError> {
        if Self::OPTIONAL {
            return encode_absent(encoder, extensibility, id, must_understand);
        }
        let open = begin_present::<Self, S>(encoder, extensibility, id, must_understand)?;
        Self::Value::encode_default(encoder)?;
        end_present(encoder, open)
    }

    /// Reads the member of a final or appendable structure.
    ///
    /// # Errors
    /// The errors of the value.
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
    /// The errors of the value.
    #[inline]
    fn decode_parameter(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        if Self::OPTIONAL && decoder.remaining() == 0 {
            return Ok(Self::absent());
        }
        Self::Value::decode(decoder).map(Self::present)
    }

    /// Reads past the member of a final or appendable structure.
    ///
    /// # Errors
    /// The errors of the value.
    #[inline]
    fn skip_member(decoder: &mut Decoder<'_>, extensibility: Extensibility) -> Result<(), DecodeError> {
        if decoder.is_absent(extensibility, Self::MIN_SIZE) {
            return Ok(());
        }
        visit_member::<Self>(decoder, Self::Value::skip)
    }

    /// Reads past the member of a final or appendable structure and writes its key.
    ///
    /// # Errors
    /// The errors of the value.
    #[inline]
    fn transcode_member<S: Sink>(
        decoder: &mut Decoder<'_>,
        extensibility: Extensibility,
        encoder: &mut Encoder<'_, S>,
        id: u32,
        must_understand: bool,
    ) -> Result<(), DecodeError> {
        let mut present = false;
        if !decoder.is_absent(extensibility, Self::MIN_SIZE) {
            visit_member::<Self>(decoder, |value| {
                present = true;
                transcode_present::<Self, S>(value, extensibility, encoder, id, must_understand)
            })?;
        }
        if present {
            return Ok(());
        }
        let written = encoder.effective(extensibility);
        let result = Self::encode_default_member(encoder, written, id, must_understand);
        result.map_err(|error| unwritable(decoder, error))
    }

    /// Writes the key of the member `id` of the mutable structure whose members start here.
    ///
    /// # Errors
    /// The errors of the value.
    fn transcode_parameter<S: Sink>(
        members: &Decoder<'_>,
        encoder: &mut Encoder<'_, S>,
        id: u32,
        must_understand: bool,
    ) -> Result<(), DecodeError> {
        let found = members.find_parameter(id)?;
        match found.filter(|value| !Self::OPTIONAL || value.remaining() > 0) {
            Some(mut value) => {
                transcode_present::<Self, S>(&mut value, Extensibility::Mutable, encoder, id, must_understand)
            }
            None => {
                let written = encoder.effective(Extensibility::Mutable);
                let result = Self::encode_default_member(encoder, written, id, must_understand);
                result.map_err(|error| unwritable(members, error))
            }
        }
    }
}

impl<T: DdsType> Member for T {
    type Value = T;
    const OPTIONAL: bool = false;
    const MIN_SIZE: usize = <T as DdsType>::MIN_SIZE;
    const LAYOUT: MemberLayout = T::LAYOUT.erase();

    #[doc(hidden)]
    fn seal(_: sealed::Seal) {}

    #[doc(hidden)]
    fn obstacle(representation: Representation) -> Option<Obstacle> {
        <T as DdsType>::obstacle(representation)
    }

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
    /// An absent member takes one byte in XCDR2 and a parameter header in XCDR1.
    const MIN_SIZE: usize = 1;
    const LAYOUT: MemberLayout = MemberLayout::NONE;

    #[doc(hidden)]
    fn seal(_: sealed::Seal) {}

    #[doc(hidden)]
    fn obstacle(_: Representation) -> Option<Obstacle> {
        Some(Obstacle::new(T::TYPE_NAME, Reason::Optional))
    }

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

/// Writes the header of a member, or in XCDR2 the flag of an optional member.
#[inline]
fn begin_present<M: Member, S: Sink>(
    encoder: &mut Encoder<'_, S>,
    extensibility: Extensibility,
    id: u32,
    must_understand: bool,
) -> Result<Option<OpenParameter>, EncodeError> {
    if extensibility == Extensibility::Mutable {
        return encoder.begin_parameter(id, must_understand, M::Value::LENGTH_CODE).map(Some);
    }
    if !M::OPTIONAL {
        return Ok(None);
    }
    match encoder.representation() {
        Representation::Xcdr1 => encoder.begin_optional_xcdr1(id, must_understand).map(Some),
        Representation::Xcdr2 => encoder.put(&[1]).map(|()| None),
    }
}

#[inline]
fn end_present<S: Sink>(encoder: &mut Encoder<'_, S>, open: Option<OpenParameter>) -> Result<(), EncodeError> {
    match open {
        Some(parameter) => encoder.end_parameter(parameter),
        None => Ok(()),
    }
}

/// Writes an optional member without a value.
fn encode_absent<S: Sink>(
    encoder: &mut Encoder<'_, S>,
    extensibility: Extensibility,
    id: u32,
    must_understand: bool,
) -> Result<(), EncodeError> {
    match (extensibility, encoder.representation()) {
        (Extensibility::Mutable, _) => Ok(()),
        (_, Representation::Xcdr1) => {
            let parameter = encoder.begin_optional_xcdr1(id, must_understand)?;
            encoder.end_parameter(parameter)
        }
        (_, Representation::Xcdr2) => encoder.put(&[0]),
    }
}

/// Reads past the value of a member and writes its key, as a member of a structure of this extensibility.
#[inline]
fn transcode_present<M: Member, S: Sink>(
    value: &mut Decoder<'_>,
    extensibility: Extensibility,
    encoder: &mut Encoder<'_, S>,
    id: u32,
    must_understand: bool,
) -> Result<(), DecodeError> {
    let written = encoder.effective(extensibility);
    let open =
        begin_present::<M, S>(encoder, written, id, must_understand).map_err(|error| unwritable(value, error))?;
    M::Value::transcode_key(value, encoder)?;
    end_present(encoder, open).map_err(|error| unwritable(value, error))
}
