//! `#[dds(flat)]` on unions: views of the XCDR2 form.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Error, Result};

use crate::syntax;
use crate::union::{Case, Union};

impl Union<'_> {
    /// The implementations of the flat form, and the type of the view.
    pub(crate) fn flat(&self) -> Result<(TokenStream, TokenStream)> {
        let container = self.container;
        let Some(span) = container.flat else { return Ok((TokenStream::new(), TokenStream::new())) };
        if self.cases.iter().all(|case| case.ty.is_none()) {
            return Err(Error::new(span, "a flat union has a variant that holds a value"));
        }
        Ok((self.flat_type(), self.view_type()))
    }

    fn view_type(&self) -> TokenStream {
        let container = self.container;
        let (runtime, vis, ident) = (&container.runtime, &container.vis, &container.ident);
        let view = format_ident!("{ident}View");
        let doc = format!("`{ident}` in a payload.");
        let variants = self.cases.iter().map(|case| {
            let variant = &case.ident;
            let doc = format!("The variant `{variant}`.");
            let value = case.ty.as_ref().map(|ty| quote!((<#ty as #runtime::flat::FlatType>::View<'a>)));
            quote!(#[doc = #doc] #variant #value)
        });
        quote! {
            #[doc = #doc]
            #[derive(Clone, Copy, Debug)]
            #[allow(dead_code)]
            #vis enum #view<'a> {
                #(#variants,)*
            }
        }
    }

    fn flat_type(&self) -> TokenStream {
        let ident = &self.container.ident;
        let view = format_ident!("{ident}View");
        let disc_type = &self.discriminator;
        let (check, read) = (self.check(), self.read());
        let default = self.viewed(&self.cases[0], &quote!(::core::option::Option::None));
        let read_discriminator = if self.is_mutable() {
            quote! {
                let members = ::core::clone::Clone::clone(&*decoder);
                let discriminator = __xt::private::discriminator::<#disc_type>(&members)?;
            }
        } else {
            quote! {
                let discriminator = <#disc_type as __xt::Member>::decode_member(
                    decoder,
                    <Self as __xt::DdsType>::EXTENSIBILITY,
                )?;
            }
        };
        quote! {
            impl #ident {
                fn __view<'a>(
                    decoder: &mut __xt::Decoder<'a>,
                ) -> ::core::result::Result<#view<'a>, __xt::DecodeError> {
                    let _aggregate = decoder.begin_aggregate(<Self as __xt::DdsType>::EXTENSIBILITY)?;
                    #read_discriminator
                    ::core::result::Result::Ok(#read)
                }
            }

            #[automatically_derived]
            impl __xt::flat::FlatType for #ident {
                type View<'a> = #view<'a>;
                type ViewMut<'a> = __xt::flat::NotFixedSize;
                type Builder<'w> = __xt::flat::ValueBuilder<'w, Self>;
                type Built = Self;
                type Input<'v> = &'v Self;
                const FIXED: bool = false;
                const ANY_BITS: bool = false;

                fn check(decoder: &mut __xt::Decoder<'_>) -> ::core::result::Result<(), __xt::DecodeError> {
                    let aggregate = decoder.begin_aggregate(<Self as __xt::DdsType>::EXTENSIBILITY)?;
                    #read_discriminator
                    #check
                    decoder.end_aggregate(aggregate);
                    ::core::result::Result::Ok(())
                }

                fn view<'a>(decoder: ::core::option::Option<__xt::Decoder<'a>>) -> #view<'a> {
                    decoder.and_then(|mut decoder| Self::__view(&mut decoder).ok()).unwrap_or_else(|| #default)
                }

                fn view_mut<'a>(_: &'a mut [u8], _: __xt::flat::private::Place) -> __xt::flat::NotFixedSize {
                    __xt::flat::NotFixedSize
                }

                fn builder<'w>(
                    writer: __xt::flat::Writer<'w>,
                ) -> ::core::result::Result<__xt::flat::ValueBuilder<'w, Self>, __xt::flat::FlatError> {
                    ::core::result::Result::Ok(__xt::flat::ValueBuilder::new(writer))
                }

                fn write(
                    input: &Self,
                    encoder: &mut __xt::Encoder<'_, __xt::flat::Writer<'_>>,
                ) -> ::core::result::Result<(), __xt::flat::FlatError> {
                    ::core::result::Result::Ok(<Self as __xt::DdsType>::encode(input, encoder)?)
                }
            }
        }
    }

    /// The view of a variant whose value is at the decoder `at`.
    fn viewed(&self, case: &Case, at: &TokenStream) -> TokenStream {
        let (view, variant) = (format_ident!("{}View", self.container.ident), &case.ident);
        match &case.ty {
            None => quote!(#view::#variant),
            Some(ty) => {
                let path = quote_spanned! { syntax::span_of(ty) => <#ty as __xt::flat::FlatType> };
                quote!(#view::#variant(#path::view(#at)))
            }
        }
    }

    fn read(&self) -> TokenStream {
        self.select(|case| {
            let at = match (&case.ty, self.is_mutable()) {
                (None, _) => TokenStream::new(),
                (Some(_), true) => {
                    let id = case.id;
                    quote!(members.find_parameter(#id)?)
                }
                (Some(ty), false) => quote! {
                    __xt::flat::private::present::<#ty>(decoder, <Self as __xt::DdsType>::EXTENSIBILITY)
                },
            };
            self.viewed(case, &at)
        })
    }

    fn check(&self) -> TokenStream {
        let select = self.select(|case| {
            let Some(ty) = &case.ty else { return TokenStream::new() };
            let path = quote_spanned! { syntax::span_of(ty) => <#ty as __xt::flat::FlatMember> };
            let id = case.id;
            if self.is_mutable() {
                quote! {
                    if let ::core::option::Option::Some(mut value) = members.find_parameter(#id)? {
                        selected = #id;
                        <#ty as __xt::flat::FlatType>::check(&mut value)?;
                    }
                }
            } else {
                quote!(#path::check_member(decoder, <Self as __xt::DdsType>::EXTENSIBILITY)?;)
            }
        });
        if !self.is_mutable() {
            return select;
        }
        quote! {
            let mut selected = 0;
            #select
            // A receiver may ignore an unknown member only if the sender permits it.
            while let ::core::option::Option::Some(parameter) = decoder.next_parameter()? {
                if parameter.id == 0 || parameter.id == selected {
                    decoder.end_parameter(parameter);
                } else {
                    decoder.skip_unknown(parameter)?;
                }
            }
        }
    }
}
