//! The builders of structures.
//!
//! The functions that the builder of a mutable structure calls are `inline(always)`: in one function, the compiler
//! knows positions and headers, and the remaining work for a member is one check of the buffer's length and the writing
//! of its words.

use core::marker::PhantomData;

use crate::encoder::Length;
use crate::flat::error::FlatError;
use crate::flat::flat_type::{Build, FlatMember, FlatType};
use crate::flat::writer::{Done, Writer};
use crate::parameter::{EM_MUST_UNDERSTAND, MEMBER_ID_MASK};
use crate::sink::Sink;
use crate::types::DdsType;

debug_without_bounds! {
    [T] StructureWriter<'_, T> { writer },
    [T, const N: usize] ParametersWriter<'_, T, N> { inner, given },
}

/// Writes the members of a final or appendable structure. For the derive macro.
pub struct StructureWriter<'w, T> {
    writer: Writer<'w>,
    length: Length,
    of: PhantomData<fn() -> T>,
}

impl<'w, T: DdsType> StructureWriter<'w, T> {
    /// Opens the structure.
    ///
    /// # Errors
    /// The errors of [`FlatError::Encode`].
    #[inline(always)]
    pub fn new(mut writer: Writer<'w>) -> Result<Self, FlatError> {
        let length = writer.begin_aggregate(T::EXTENSIBILITY)?;
        Ok(Self { writer, length, of: PhantomData })
    }

    /// Writes the next member.
    ///
    /// # Errors
    /// The errors of the value.
    #[inline]
    pub fn member<M: FlatMember>(&mut self, input: M::Input<'_>) -> Result<(), FlatError> {
        let value = M::input(input);
        if M::OPTIONAL {
            self.writer.put(&[u8::from(value.is_some())])?;
        }
        value.map_or(Ok(()), |value| self.writer.write::<M::Value>(value))
    }

    /// Lets `build` write the next member.
    ///
    /// # Errors
    /// The errors of `build`.
    #[inline]
    pub fn member_with<M: FlatMember, F>(&mut self, build: F) -> Result<(), FlatError>
    where
        F: for<'x> Build<'x, M::Value>,
    {
        if M::OPTIONAL {
            self.writer.put(&[1])?;
        }
        self.writer.build::<M::Value, F>(build)
    }

    /// Closes the structure.
    ///
    /// # Errors
    /// The errors of [`FlatError::Encode`].
    #[inline(always)]
    pub fn close(mut self) -> Result<Done<'w, T>, FlatError> {
        self.writer.end_delimited(self.length)?;
        self.writer.finish()
    }
}

/// A member of a mutable structure. For the derive macro.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its position among the members.
    pub index: usize,
    /// Its name.
    pub name: &'static str,
    /// Its id.
    pub id: u32,
    /// Whether readers that do not know it refuse the sample.
    pub must_understand: bool,
}

impl Parameter {
    /// The EMHEADER in front of a `V`.
    #[inline]
    fn header<V: DdsType>(self) -> u32 {
        let flag = if self.must_understand { EM_MUST_UNDERSTAND } else { 0 };
        flag | (V::LENGTH_CODE as u32) << 28 | self.id & MEMBER_ID_MASK
    }
}

/// Writes the members of a mutable structure, in any order. For the derive macro.
pub struct ParametersWriter<'w, T, const N: usize> {
    inner: StructureWriter<'w, T>,
    given: [bool; N],
}

impl<'w, T: DdsType, const N: usize> ParametersWriter<'w, T, N> {
    /// Opens the structure.
    ///
    /// # Errors
    /// The errors of [`FlatError::Encode`].
    #[inline(always)]
    pub fn new(writer: Writer<'w>) -> Result<Self, FlatError> {
        Ok(Self { inner: StructureWriter::new(writer)?, given: [false; N] })
    }

    /// Writes a member.
    ///
    /// # Errors
    /// [`FlatError::RepeatedMember`], and the errors of the value.
    #[inline(always)]
    pub fn member<M: FlatMember>(&mut self, parameter: Parameter, input: M::Input<'_>) -> Result<(), FlatError> {
        self.mark(parameter)?;
        let Some(value) = M::input(input) else { return Ok(()) };
        if let Some(bytes) = M::Value::bytes(&value) {
            let has_length = M::Value::LENGTH_CODE.is_separate();
            return Ok(self.inner.writer.put_bytes(parameter.header::<M::Value>(), has_length, bytes)?);
        }
        let length = self.begin_parameter::<M::Value>(parameter)?;
        self.inner.writer.write::<M::Value>(value)?;
        Ok(self.inner.writer.end_delimited(length)?)
    }

    /// Lets `build` write a member.
    ///
    /// # Errors
    /// [`FlatError::RepeatedMember`], and the errors of `build`.
    #[inline(always)]
    pub fn member_with<M: FlatMember, F>(&mut self, parameter: Parameter, build: F) -> Result<(), FlatError>
    where
        F: for<'x> Build<'x, M::Value>,
    {
        self.mark(parameter)?;
        let length = self.begin_parameter::<M::Value>(parameter)?;
        self.inner.writer.build::<M::Value, F>(build)?;
        Ok(self.inner.writer.end_delimited(length)?)
    }

    #[inline(always)]
    fn mark(&mut self, parameter: Parameter) -> Result<(), FlatError> {
        match self.given.get_mut(parameter.index) {
            Some(given) if !*given => *given = true,
            _ => return Err(FlatError::RepeatedMember { type_name: T::TYPE_NAME, member: parameter.name }),
        }
        Ok(())
    }

    #[inline(always)]
    fn begin_parameter<V: DdsType>(&mut self, parameter: Parameter) -> Result<Length, FlatError> {
        let writer = &mut self.inner.writer;
        writer.put_word(parameter.header::<V>())?;
        Ok(writer.begin_delimited(V::LENGTH_CODE.is_separate())?)
    }

    /// Closes the structure, whose members are `members`: their names, and whether they are optional.
    ///
    /// # Errors
    /// [`FlatError::MissingMember`], and the errors of [`FlatError::Encode`].
    #[inline(always)]
    pub fn close(self, members: &[(&'static str, bool); N]) -> Result<Done<'w, T>, FlatError> {
        let missing = members.iter().zip(&self.given).find(|((_, optional), given)| !optional && !**given);
        match missing {
            Some(((member, _), _)) => Err(FlatError::MissingMember { type_name: T::TYPE_NAME, member }),
            None => self.inner.close(),
        }
    }
}
