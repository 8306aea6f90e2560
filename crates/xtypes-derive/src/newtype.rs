//! Aliases and bitmasks: tuple structures of one field.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Field, Result, Type};

use crate::attributes::Container;
use crate::syntax;

pub(crate) fn expand(container: &Container, field: &Field) -> Result<TokenStream> {
    container.forbid(
        "an alias or a bitmask",
        &[
            ("discriminator", container.discriminator.as_ref().map(Spanned::span)),
            ("extensibility", container.extensibility.map(|(_, span)| span)),
            ("key", container.key),
        ],
    )?;
    syntax::check_type(&field.ty)?;
    let ty = &field.ty;
    let primitive = match container.bitmask {
        Some(_) => {
            check_bitmask(container, ty)?;
            quote!(false)
        }
        None => quote!(<#ty as __xt::DdsType>::PRIMITIVE),
    };
    if let (Some((_, span)), None) = (container.bit_bound, container.bitmask) {
        return Err(Error::new(span, "`bit_bound` is for enumerations and, with `bitmask`, for bitmasks"));
    }
    Ok(implementation(container, ty, &primitive))
}

fn check_bitmask(container: &Container, ty: &Type) -> Result<()> {
    let width = match syntax::last_segment(ty).map(ToString::to_string).as_deref() {
        Some("u8") => 8,
        Some("u16") => 16,
        Some("u32") => 32,
        Some("u64") => 64,
        _ => return Err(Error::new_spanned(ty, "a bitmask holds a `u8`, `u16`, `u32` or `u64`")),
    };
    // Without `bit_bound`, the integer type of a mask of fewer than 32 bits determines its bound (XTypes 1.3
    // §7.2.2.4.1.2).
    let Some((bound, span)) = container.bit_bound else { return Ok(()) };
    let holder = match bound {
        1..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        33..=64 => 64,
        _ => return Err(Error::new(span, "the bit bound of a bitmask is 1 to 64")),
    };
    if holder != width {
        return Err(Error::new_spanned(ty, format!("a bitmask of {bound} bits is held in a `u{holder}`")));
    }
    Ok(())
}

fn implementation(container: &Container, ty: &Type, primitive: &TokenStream) -> TokenStream {
    let (ident, name, nested) = (&container.ident, &container.name, container.nested);
    let inner = quote_spanned! { syntax::span_of(ty) => <#ty as __xt::DdsType> };
    let layout = container.fixed_layout.then(|| {
        quote! {
            const LAYOUT: __xt::plain::Layout<Self> =
                __xt::private::plain_layout!(Self, __xt::Extensibility::Final, [0]);
        }
    });
    let flat = match container.bitmask {
        Some(_) => crate::flat::scalar(container, true),
        None => crate::flat::alias(container, ty),
    };
    quote! {
        #flat
        #[automatically_derived]
        impl __xt::DdsType for #ident {
            const TYPE_NAME: &'static str = #name;
            const EXTENSIBILITY: __xt::Extensibility = #inner::EXTENSIBILITY;
            const NESTED: bool = #nested;
            const HAS_KEY: bool = #inner::HAS_KEY;
            const PRIMITIVE: bool = #primitive;
            const LENGTH_CODE: __xt::LengthCode = #inner::LENGTH_CODE;
            const MIN_SIZE: usize = #inner::MIN_SIZE;
            const EXTENTS: __xt::Extents = #inner::EXTENTS;
            const TOPIC_KEY: __xt::KeyFacts = #inner::TOPIC_KEY;
            const MEMBER_KEY: __xt::KeyFacts = #inner::MEMBER_KEY;
            #layout

            type Key = #inner::Key;
            type MemberKey = #inner::MemberKey;

            #[inline]
            fn encode<S: __xt::Sink>(
                &self,
                encoder: &mut __xt::Encoder<'_, S>,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                #inner::encode(&self.0, encoder)
            }

            #[inline]
            fn decode(
                decoder: &mut __xt::Decoder<'_>,
            ) -> ::core::result::Result<Self, __xt::DecodeError> {
                #inner::decode(decoder).map(Self)
            }

            #[inline]
            fn skip(decoder: &mut __xt::Decoder<'_>) -> ::core::result::Result<(), __xt::DecodeError> {
                #inner::skip(decoder)
            }

            fn is_generated(seen: &mut __xt::private::provenance::Seen) -> bool {
                #inner::is_generated(seen)
            }

            fn transcode_key<S: __xt::Sink>(
                decoder: &mut __xt::Decoder<'_>,
                encoder: &mut __xt::Encoder<'_, S>,
            ) -> ::core::result::Result<(), __xt::DecodeError> {
                #inner::transcode_key(decoder, encoder)
            }

            fn default_value() -> Self {
                Self(#inner::default_value())
            }

            fn encode_default<S: __xt::Sink>(
                encoder: &mut __xt::Encoder<'_, S>,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                #inner::encode_default(encoder)
            }

            fn key(&self) -> Self::Key {
                #inner::key(&self.0)
            }

            fn member_key(&self) -> Self::MemberKey {
                #inner::member_key(&self.0)
            }

            fn clear_non_key(&mut self) {
                #inner::clear_non_key(&mut self.0);
            }

            fn obstacle(
                representation: __xt::Representation,
            ) -> ::core::option::Option<__xt::private::obstacle::Obstacle> {
                if <Self as __xt::DdsType>::LAYOUT.is_borrowable(representation) {
                    return ::core::option::Option::None;
                }
                let own = __xt::private::obstacle::Obstacle::new(#name, __xt::private::obstacle::Reason::NotTransparent);
                ::core::option::Option::Some(#inner::obstacle(representation).unwrap_or(own))
            }
        }
    }
}
