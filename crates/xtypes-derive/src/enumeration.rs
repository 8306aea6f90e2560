//! Enumerations: Rust enums without data.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{DataEnum, Error, Result};

use crate::attributes::{Container, VariantAttributes};
use crate::syntax;

pub(crate) fn expand(container: &Container, data: &DataEnum) -> Result<TokenStream> {
    container.forbid("an enumeration", &[("bitmask", container.bitmask), ("key", container.key)])?;
    let Some(first) = data.variants.first() else {
        return Err(syntax::error_at(container.ident.span(), "an enumeration has at least one literal"));
    };
    let mut default = None;
    for variant in &data.variants {
        let attributes = VariantAttributes::parse(variant)?;
        if let Some(span) = attributes.default_literal
            && default.replace(&variant.ident).is_some()
        {
            return Err(Error::new(span, "an enumeration has one default literal"));
        }
        if !attributes.cases.is_empty() || attributes.default.is_some() || attributes.id.is_some() {
            return Err(Error::new(
                variant.span(),
                "`case`, `default` and `id` are for unions: give the enumeration a `discriminator` to make it one",
            ));
        }
    }
    let holder = match container.bit_bound {
        None => quote!(i32),
        Some((1..=8, _)) => quote!(i8),
        Some((9..=16, _)) => quote!(i16),
        Some((17..=32, _)) => quote!(i32),
        Some((_, span)) => return Err(Error::new(span, "the bit bound of an enumeration is 1 to 32")),
    };
    let first = default.unwrap_or(&first.ident);
    let unknown = match default {
        Some(literal) => quote!(::core::result::Result::Ok(Self::#literal)),
        None => quote!(::core::result::Result::Err(decoder.error(__xt::DecodeErrorKind::UnknownLiteral))),
    };
    Ok(implementation(container, data, &holder, first, &unknown))
}

fn implementation(
    container: &Container,
    data: &DataEnum,
    holder: &TokenStream,
    default: &syn::Ident,
    unknown: &TokenStream,
) -> TokenStream {
    let (ident, name, nested) = (&container.ident, &container.name, container.nested);
    let literals = data.variants.iter().map(|variant| &variant.ident).collect::<Vec<_>>();
    let values = (0..literals.len()).map(|index| format_ident!("VALUE_{index}")).collect::<Vec<_>>();
    let flat = crate::flat::scalar(container, false);
    quote! {
        #flat
        #(const #values: #holder = {
            let value = #ident::#literals as i64;
            ::core::assert!(
                value >= #holder::MIN as i64 && value <= #holder::MAX as i64,
                "a literal does not fit the bit bound of the enumeration"
            );
            value as #holder
        };)*

        #[automatically_derived]
        impl __xt::DdsType for #ident {
            const TYPE_NAME: &'static str = #name;
            const NESTED: bool = #nested;
            const LENGTH_CODE: __xt::LengthCode = <#holder as __xt::DdsType>::LENGTH_CODE;
            const MIN_SIZE: usize = <#holder as __xt::DdsType>::MIN_SIZE;
            const EXTENTS: __xt::Extents = <#holder as __xt::DdsType>::EXTENTS;
            const MEMBER_KEY: __xt::KeyFacts = <#holder as __xt::DdsType>::MEMBER_KEY;

            type Key = ();
            type MemberKey = Self;

            #[inline]
            fn encode<S: __xt::Sink>(
                &self,
                encoder: &mut __xt::Encoder<'_, S>,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                let value = match self {
                    #(Self::#literals => #values,)*
                };
                <#holder as __xt::DdsType>::encode(&value, encoder)
            }

            #[inline]
            fn decode(
                decoder: &mut __xt::Decoder<'_>,
            ) -> ::core::result::Result<Self, __xt::DecodeError> {
                match <#holder as __xt::DdsType>::decode(decoder)? {
                    #(#values => ::core::result::Result::Ok(Self::#literals),)*
                    _ => #unknown,
                }
            }

            #[inline]
            fn skip(decoder: &mut __xt::Decoder<'_>) -> ::core::result::Result<(), __xt::DecodeError> {
                <#holder as __xt::DdsType>::skip(decoder)
            }

            fn is_generated(seen: &mut __xt::private::provenance::Seen) -> bool {
                <#holder as __xt::DdsType>::is_generated(seen)
            }

            fn transcode_key<S: __xt::Sink>(
                decoder: &mut __xt::Decoder<'_>,
                encoder: &mut __xt::Encoder<'_, S>,
            ) -> ::core::result::Result<(), __xt::DecodeError> {
                let value = <Self as __xt::DdsType>::decode(decoder)?;
                __xt::private::transcode(&value, decoder, encoder)
            }

            fn default_value() -> Self {
                Self::#default
            }

            fn key(&self) {}

            fn member_key(&self) -> Self {
                ::core::clone::Clone::clone(self)
            }
        }
    }
}
