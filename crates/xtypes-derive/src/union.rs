//! Unions: Rust enums with data.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{DataEnum, Error, Expr, ExprLit, ExprUnary, Fields, Ident, Lit, Result, Type, UnOp, Variant, parse_quote};

use crate::attributes::{Container, Extensibility, VariantAttributes};
use crate::syntax;

pub(crate) struct Case {
    pub(crate) ident: Ident,
    /// The type of the variant's value; none when its labels select no member.
    pub(crate) ty: Option<Type>,
    pub(crate) id: u32,
    labels: Vec<Expr>,
    is_default: bool,
    /// The label that is written.
    written: TokenStream,
}

pub(crate) struct Union<'c> {
    pub(crate) container: &'c Container,
    pub(crate) discriminator: Type,
    pub(crate) cases: Vec<Case>,
}

/// The implementations, and the type of the flat form.
pub(crate) fn expand(container: &Container, data: &DataEnum) -> Result<(TokenStream, TokenStream)> {
    container.forbid(
        "a union",
        &[("bit_bound", container.bit_bound.map(|(_, span)| span)), ("bitmask", container.bitmask)],
    )?;
    if data.variants.is_empty() {
        return Err(syntax::error_at(container.ident.span(), "a union has at least one member"));
    }
    let union = Union::new(container, data)?;
    let (implementation, (flat, types)) = (union.implementation(), union.flat()?);
    Ok((quote! { #implementation #flat }, types))
}

impl<'c> Union<'c> {
    fn new(container: &'c Container, data: &DataEnum) -> Result<Self> {
        let discriminator = container.discriminator.clone().unwrap_or_else(|| parse_quote!(i32));
        let mut union = Self { container, discriminator, cases: Vec::new() };
        for variant in &data.variants {
            union.push(variant)?;
        }
        union.check_labels()?;
        for index in 0..union.cases.len() {
            union.cases[index].written = union.written_label(&union.cases[index])?;
        }
        Ok(union)
    }

    fn push(&mut self, variant: &Variant) -> Result<()> {
        let attributes = VariantAttributes::parse(variant)?;
        let ty = match &variant.fields {
            Fields::Unit => None,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                fields.unnamed.first().map(|field| field.ty.clone())
            }
            fields => return Err(Error::new_spanned(fields, "a variant of a union holds one value, or none")),
        };
        if let Some(ty) = &ty {
            syntax::check_type(ty)?;
        }
        if let Some(span) = attributes.default_literal {
            return Err(Error::new(span, "`default_literal` is for enumerations: a union has a `default` variant"));
        }
        if attributes.cases.is_empty() && attributes.default.is_none() {
            return Err(Error::new(
                variant.ident.span(),
                "a variant of a union has labels: #[dds(case = ...)] or #[dds(default)]",
            ));
        }
        if let (Some(span), true) = (attributes.default, self.cases.iter().any(|case| case.is_default)) {
            return Err(Error::new(span, "a union has one default variant"));
        }
        // The discriminator is member 0.
        let id = match (attributes.id, self.cases.last()) {
            (Some((id, _)), _) => id,
            (None, Some(case)) => case.id + 1,
            (None, None) => 1,
        };
        if id == 0 || self.cases.iter().any(|case| case.id == id) {
            let span = attributes.id.map_or_else(|| variant.ident.span(), |(_, span)| span);
            return Err(Error::new(span, format!("the member id {id} is already in use: set another with `id = N`")));
        }
        self.cases.push(Case {
            ident: variant.ident.clone(),
            ty,
            id,
            labels: attributes.cases,
            is_default: attributes.default.is_some(),
            written: TokenStream::new(),
        });
        Ok(())
    }

    fn check_labels(&self) -> Result<()> {
        let mut seen = Vec::new();
        for label in self.cases.iter().flat_map(|case| &case.labels) {
            if let Some(value) = integer(label) {
                if seen.contains(&value) {
                    return Err(Error::new_spanned(label, format!("the label {value} is already in use")));
                }
                seen.push(value);
            }
        }
        Ok(())
    }

    /// The first label. A default variant without one takes the least number that no other variant has.
    fn written_label(&self, case: &Case) -> Result<TokenStream> {
        if let Some(label) = case.labels.first() {
            return Ok(quote!(#label));
        }
        let is_integer = syntax::last_segment(&self.discriminator)
            .is_some_and(|name| ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"].iter().any(|int| name == int));
        let labels: Option<Vec<i128>> =
            self.cases.iter().flat_map(|case| &case.labels).map(integer).collect::<Option<_>>();
        match labels {
            Some(labels) if is_integer => {
                let free = (0..).find(|value| !labels.contains(value)).unwrap_or_default();
                let literal = proc_macro2::Literal::i128_unsuffixed(free);
                Ok(quote!(#literal))
            }
            _ => Err(Error::new(
                case.ident.span(),
                "give the default variant the label to write: #[dds(default, case = ...)]",
            )),
        }
    }

    pub(crate) fn is_mutable(&self) -> bool {
        self.container.extensibility() == Extensibility::Mutable
    }

    /// Generates the branches that run the code of `known` for the variant that the discriminator selects.
    pub(crate) fn select(&self, known: impl Fn(&Case) -> TokenStream) -> TokenStream {
        let arms = self.cases.iter().filter(|case| !case.labels.is_empty()).map(|case| {
            let (labels, code) = (&case.labels, known(case));
            quote!(if #(discriminator == #labels)||* { #code } else)
        });
        let otherwise = match self.cases.iter().find(|case| case.is_default) {
            Some(case) => known(case),
            None => quote! {
                return ::core::result::Result::Err(
                    decoder.error(__xt::DecodeErrorKind::UnknownDiscriminator),
                )
            },
        };
        quote! { #(#arms)* { #otherwise } }
    }

    fn implementation(&self) -> TokenStream {
        let (ident, name, nested) = (&self.container.ident, &self.container.name, self.container.nested);
        let extensibility = self.container.extensibility().tokens();
        let disc = self.discriminator_path();
        let length_code = self.container.extensibility().length_code();
        let (disc_type, facts) = (&self.discriminator, self.facts());
        let (key, encode, decode, walk) = (self.key_items(), self.encode_fn(), self.decode_fn(), self.walk_fns());
        let first = &self.cases[0];
        let default = construct(first, &quote!(__xt::DdsType::default_value()));
        let encode_default = self.encode_default_fn(first);
        quote! {
            #[automatically_derived]
            impl __xt::DdsType for #ident {
                const TYPE_NAME: &'static str = #name;
                const EXTENSIBILITY: __xt::Extensibility = #extensibility;
                const NESTED: bool = #nested;
                const LENGTH_CODE: __xt::LengthCode = #length_code;
                const MIN_SIZE: usize = __xt::private::facts::min_size(#extensibility, #disc::MIN_SIZE);
                const EXTENTS: __xt::Extents = __xt::private::facts::union_extents(
                    #extensibility,
                    __xt::private::facts::member::<#disc_type>(#extensibility, 0),
                    #facts,
                );
                #key
                #encode
                #decode
                #walk

                fn default_value() -> Self {
                    #default
                }

                #encode_default
            }
        }
    }

    fn discriminator_path(&self) -> TokenStream {
        let ty = &self.discriminator;
        quote_spanned! { syntax::span_of(ty) => <#ty as __xt::DdsType> }
    }

    fn facts(&self) -> TokenStream {
        let extensibility = self.container.extensibility().tokens();
        let facts = self.cases.iter().filter_map(|case| {
            let (ty, id) = (case.ty.as_ref()?, case.id);
            Some(quote!(__xt::private::facts::member::<#ty>(#extensibility, #id)))
        });
        quote!(&[ #(#facts),* ])
    }

    fn key_items(&self) -> TokenStream {
        let disc = self.discriminator_path();
        let written = self.cases.iter().map(|case| {
            let (pattern, written) = (ignore(case), &case.written);
            quote!(#pattern => #written,)
        });
        let values = self.cases.iter().filter(|case| case.ty.is_some()).map(|case| &case.ident).collect::<Vec<_>>();
        if self.container.key.is_some() {
            let disc_type = &self.discriminator;
            return quote! {
                const HAS_KEY: bool = true;
                const TOPIC_KEY: __xt::KeyFacts = #disc::MEMBER_KEY;
                const MEMBER_KEY: __xt::KeyFacts = #disc::MEMBER_KEY;
                type Key = (#disc::MemberKey,);
                type MemberKey = (#disc::MemberKey,);
                fn key(&self) -> Self::Key {
                    let discriminator: #disc_type = match self { #(#written)* };
                    (#disc::member_key(&discriminator),)
                }
                fn member_key(&self) -> Self::MemberKey {
                    <Self as __xt::DdsType>::key(self)
                }
                fn clear_non_key(&mut self) {
                    match self {
                        #(Self::#values(value) => *value = __xt::DdsType::default_value(),)*
                        #[allow(unreachable_patterns)]
                        _ => {}
                    }
                }
            };
        }
        let types = self.cases.iter().filter_map(|case| case.ty.as_ref());
        quote! {
            const MEMBER_KEY: __xt::KeyFacts = __xt::private::facts::union_key(
                #disc::MEMBER_KEY,
                &[ #(<#types as __xt::DdsType>::MEMBER_KEY),* ],
            );
            type Key = ();
            type MemberKey = Self;
            fn key(&self) {}
            fn member_key(&self) -> Self {
                let mut key = ::core::clone::Clone::clone(self);
                <Self as __xt::DdsType>::clear_non_key(&mut key);
                key
            }
            fn clear_non_key(&mut self) {
                match self {
                    #(Self::#values(value) => __xt::DdsType::clear_non_key(value),)*
                    #[allow(unreachable_patterns)]
                    _ => {}
                }
            }
        }
    }

    fn encode_fn(&self) -> TokenStream {
        let extensibility = self.container.extensibility().tokens();
        let disc_type = &self.discriminator;
        let keyed = self.container.key.is_some();
        let arms = self.cases.iter().map(|case| {
            let (ident, written, id) = (&case.ident, &case.written, case.id);
            let (pattern, member) = match &case.ty {
                None => (quote!(Self::#ident), TokenStream::new()),
                Some(ty) => (
                    quote!(Self::#ident(value)),
                    quote_spanned! { syntax::span_of(ty) =>
                        if !#keyed || encoder.form() == __xt::Form::Data {
                            <#ty as __xt::Member>::encode_member(value, encoder, extensibility, #id, false)?;
                        }
                    },
                ),
            };
            quote! {
                #pattern => {
                    let discriminator: #disc_type = #written;
                    <#disc_type as __xt::Member>::encode_member(&discriminator, encoder, extensibility, 0, false)?;
                    #member
                }
            }
        });
        quote! {
            fn encode<S: __xt::Sink>(
                &self,
                encoder: &mut __xt::Encoder<'_, S>,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                let extensibility = encoder.effective(#extensibility);
                let length = encoder.begin_aggregate(extensibility)?;
                match self { #(#arms)* }
                encoder.end_aggregate(extensibility, length)
            }
        }
    }

    fn encode_default_fn(&self, first: &Case) -> TokenStream {
        let extensibility = self.container.extensibility().tokens();
        let (disc_type, written, id) = (&self.discriminator, &first.written, first.id);
        let keyed = self.container.key.is_some();
        let member = first.ty.as_ref().map(|ty| {
            quote! {
                if !#keyed || encoder.form() == __xt::Form::Data {
                    <#ty as __xt::Member>::encode_default_member(encoder, extensibility, #id, false)?;
                }
            }
        });
        quote! {
            fn encode_default<S: __xt::Sink>(
                encoder: &mut __xt::Encoder<'_, S>,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                let extensibility = encoder.effective(#extensibility);
                let length = encoder.begin_aggregate(extensibility)?;
                let discriminator: #disc_type = #written;
                <#disc_type as __xt::Member>::encode_member(&discriminator, encoder, extensibility, 0, false)?;
                #member
                encoder.end_aggregate(extensibility, length)
            }
        }
    }

    fn decode_fn(&self) -> TokenStream {
        let extensibility = self.container.extensibility().tokens();
        let disc_type = &self.discriminator;
        let keyed = self.container.key.is_some();
        let read = |case: &Case| match (&case.ty, self.is_mutable()) {
            (None, _) => construct(case, &TokenStream::new()),
            (Some(ty), false) => construct(
                case,
                &quote_spanned! { syntax::span_of(ty) =>
                    if #keyed && decoder.form() != __xt::Form::Data {
                        <#ty as __xt::DdsType>::default_value()
                    } else {
                        <#ty as __xt::Member>::decode_member(decoder, #extensibility)?
                    }
                },
            ),
            (Some(ty), true) => {
                let id = case.id;
                let value = quote_spanned! { syntax::span_of(ty) =>
                    match members.find_parameter(#id)? {
                        ::core::option::Option::Some(mut value) => {
                            selected = #id;
                            <#ty as __xt::DdsType>::decode(&mut value)?
                        }
                        ::core::option::Option::None => <#ty as __xt::DdsType>::default_value(),
                    }
                };
                construct(case, &value)
            }
        };
        let select = self.select(read);
        let body = if self.is_mutable() {
            quote! {
                let members = ::core::clone::Clone::clone(&*decoder);
                let discriminator = __xt::private::discriminator::<#disc_type>(&members)?;
                let mut selected = 0;
                let value = #select;
                // A receiver may ignore an unknown member only if the sender permits it.
                while let ::core::option::Option::Some(parameter) = decoder.next_parameter()? {
                    if parameter.id == 0 || parameter.id == selected {
                        decoder.end_parameter(parameter);
                    } else {
                        decoder.skip_unknown(parameter)?;
                    }
                }
            }
        } else {
            quote! {
                let discriminator = <#disc_type as __xt::Member>::decode_member(decoder, #extensibility)?;
                let value = #select;
            }
        };
        quote! {
            fn decode(
                decoder: &mut __xt::Decoder<'_>,
            ) -> ::core::result::Result<Self, __xt::DecodeError> {
                let aggregate = decoder.begin_aggregate(#extensibility)?;
                #body
                decoder.end_aggregate(aggregate);
                ::core::result::Result::Ok(value)
            }
        }
    }

    fn walk_fns(&self) -> TokenStream {
        let extensibility = self.container.extensibility().tokens();
        let disc_type = &self.discriminator;
        let keyed = self.container.key.is_some();
        let skip_member = |case: &Case| {
            case.ty.as_ref().map(|ty| {
                quote! {
                    if !#keyed || decoder.form() == __xt::Form::Data {
                        <#ty as __xt::Member>::skip_member(decoder, #extensibility)?;
                    }
                }
            })
        };
        let skip = if self.is_mutable() {
            quote!(decoder.skip_parameters()?;)
        } else {
            let select = self.select(|case| skip_member(case).unwrap_or_default());
            quote! {
                let discriminator = <#disc_type as __xt::Member>::decode_member(decoder, #extensibility)?;
                #select
            }
        };
        let transcode = self.transcode(&skip_member);
        let disc = self.discriminator_path();
        let generated = self.cases.iter().filter_map(|case| case.ty.as_ref());
        let generated =
            generated.map(|ty| quote_spanned!(syntax::span_of(ty) => __xt::private::provenance::member::<#ty>));
        quote! {
            fn skip(decoder: &mut __xt::Decoder<'_>) -> ::core::result::Result<(), __xt::DecodeError> {
                let aggregate = decoder.begin_aggregate(#extensibility)?;
                if decoder.must_reach_end(&aggregate) {
                    #skip
                }
                decoder.end_aggregate(aggregate);
                ::core::result::Result::Ok(())
            }

            fn is_generated(seen: &mut __xt::private::provenance::Seen) -> bool {
                __xt::private::provenance::all_generated::<Self>(seen, &[ #disc::is_generated, #(#generated),* ])
            }

            fn transcode_key<S: __xt::Sink>(
                decoder: &mut __xt::Decoder<'_>,
                encoder: &mut __xt::Encoder<'_, S>,
            ) -> ::core::result::Result<(), __xt::DecodeError> {
                let aggregate = decoder.begin_aggregate(#extensibility)?;
                let written_extensibility = encoder.effective(#extensibility);
                let length = __xt::private::written(encoder.begin_aggregate(written_extensibility), decoder)?;
                #transcode
                __xt::private::written(encoder.end_aggregate(written_extensibility, length), decoder)?;
                decoder.end_aggregate(aggregate);
                ::core::result::Result::Ok(())
            }
        }
    }

    /// Writes the label that `encode` would write, and the member unless the discriminator alone is the key.
    fn transcode(&self, skip_member: &impl Fn(&Case) -> Option<TokenStream>) -> TokenStream {
        let extensibility = self.container.extensibility().tokens();
        let disc_type = &self.discriminator;
        let (keyed, mutable) = (self.container.key.is_some(), self.is_mutable());
        let select = self.select(|case| {
            let (written, id) = (&case.written, case.id);
            let member = case.ty.as_ref().map(|ty| match (keyed, mutable) {
                (true, true) => TokenStream::new(),
                (true, false) => skip_member(case).unwrap_or_default(),
                (false, true) => quote!(<#ty as __xt::Member>::transcode_parameter(&*decoder, encoder, #id, false)?;),
                (false, false) => {
                    quote!(<#ty as __xt::Member>::transcode_member(decoder, #extensibility, encoder, #id, false)?;)
                }
            });
            quote! {
                let written: #disc_type = #written;
                __xt::private::transcode_discriminator(&written, decoder, #extensibility, encoder)?;
                #member
            }
        });
        if mutable {
            quote! {
                let discriminator = __xt::private::discriminator::<#disc_type>(&*decoder)?;
                #select
                if decoder.must_reach_end(&aggregate) {
                    decoder.skip_parameters()?;
                }
            }
        } else {
            quote! {
                let discriminator = <#disc_type as __xt::Member>::decode_member(decoder, #extensibility)?;
                #select
            }
        }
    }
}

fn construct(case: &Case, value: &TokenStream) -> TokenStream {
    let ident = &case.ident;
    match case.ty {
        Some(_) => quote!(Self::#ident(#value)),
        None => quote!(Self::#ident),
    }
}

fn ignore(case: &Case) -> TokenStream {
    let ident = &case.ident;
    match case.ty {
        Some(_) => quote!(Self::#ident(_)),
        None => quote!(Self::#ident),
    }
}

/// The value of an integer literal, with or without a sign.
fn integer(expression: &Expr) -> Option<i128> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) => literal.base10_parse().ok(),
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => integer(expr).map(|value| -value),
        _ => None,
    }
}
