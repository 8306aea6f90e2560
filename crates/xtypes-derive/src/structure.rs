//! Structures.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Field, GenericArgument, Ident, PathArguments, Result, Type};

use crate::attributes::{Container, Extensibility, MemberAttributes};
use crate::flat;
use crate::syntax;

struct Member {
    ident: Ident,
    ty: Type,
    /// The id, if it does not depend on a base structure.
    known_id: Option<u32>,
    id: TokenStream,
    key: bool,
    must_understand: bool,
}

impl Member {
    /// `<Type as Member>`. The compiler reports its errors at the type in the source.
    fn path(&self) -> TokenStream {
        let ty = &self.ty;
        quote_spanned! { syntax::span_of(ty) => <#ty as __xt::Member> }
    }
}

struct Structure<'c> {
    container: &'c Container,
    base: Option<(Ident, Type)>,
    members: Vec<Member>,
}

/// The implementations, and the types of the flat form.
pub(crate) fn expand<'f>(
    container: &Container,
    fields: impl Iterator<Item = &'f Field>,
) -> Result<(TokenStream, TokenStream)> {
    container.forbid(
        "a structure",
        &[
            ("bit_bound", container.bit_bound.map(|(_, span)| span)),
            ("bitmask", container.bitmask),
            ("discriminator", container.discriminator.as_ref().map(Spanned::span)),
            ("key", container.key),
        ],
    )?;
    let structure = Structure::new(container, fields)?;
    let (dds_type, members, checks) = (structure.dds_type(), structure.members_impl(), structure.checks());
    let base = structure.base.as_ref().map(|(ident, _)| ident.span());
    let flat = flat::structure(container, base, structure.flat_members())?;
    let types = flat::structure_types(container, structure.flat_members());
    Ok((quote! { #dds_type #members #checks #flat }, types))
}

impl<'c> Structure<'c> {
    fn new<'f>(container: &'c Container, fields: impl Iterator<Item = &'f Field>) -> Result<Self> {
        let mut structure = Self { container, base: None, members: Vec::new() };
        for (index, field) in fields.enumerate() {
            let ident = field.ident.clone().ok_or_else(|| Error::new_spanned(field, "the member has no name"))?;
            syntax::check_type(&field.ty)?;
            let attributes = MemberAttributes::parse(field, &syntax::idl_name(&ident), container.hash_ids)?;
            match attributes.base {
                Some(span) if index > 0 => return Err(Error::new(span, "the base structure is the first member")),
                Some(_) => structure.base = Some((ident, field.ty.clone())),
                None => structure.push(ident, field, &attributes)?,
            }
        }
        Ok(structure)
    }

    fn push(&mut self, ident: Ident, field: &Field, attributes: &MemberAttributes) -> Result<()> {
        let is_option = syntax::last_segment(&field.ty).is_some_and(|name| name == "Option");
        if let (Some(span), false) = (attributes.optional, is_option) {
            return Err(Error::new(span, "an optional member has the type `Option<T>`"));
        }
        if let (Some(span), true) = (attributes.key, is_option) {
            return Err(Error::new(span, "a key member cannot be optional"));
        }
        let (known_id, id) = self.id(attributes);
        if let Some(id) = known_id.filter(|id| self.members.iter().any(|member| member.known_id == Some(*id))) {
            let span = attributes.id.map_or_else(|| ident.span(), |(_, span)| span);
            return Err(Error::new(span, format!("the member id {id} is already in use: set another with `id = N`")));
        }
        if known_id.is_some_and(|id| id > 0x0fff_ffff) {
            return Err(Error::new(ident.span(), "the member id has more than 28 bits: set another with `id = N`"));
        }
        let (key, must_understand) = (attributes.key.is_some(), attributes.must_understand);
        self.members.push(Member { ident, ty: field.ty.clone(), known_id, id, key, must_understand });
        Ok(())
    }

    /// The id of the next member: its own, or one more than that of the member before it.
    fn id(&self, attributes: &MemberAttributes) -> (Option<u32>, TokenStream) {
        if let Some((id, _)) = attributes.id {
            return (Some(id), quote!(#id));
        }
        match (self.members.last(), &self.base) {
            (None, None) => (Some(0), quote!(0u32)),
            (None, Some((_, base))) => (None, quote!(<#base as __xt::Structure>::NEXT_ID)),
            (Some(Member { known_id: Some(id), .. }), _) => {
                let id = id + 1;
                (Some(id), quote!(#id))
            }
            (Some(Member { id, .. }), _) => (None, quote!(#id + 1u32)),
        }
    }

    fn flat_members(&self) -> Vec<flat::Member<'_>> {
        let flat = self.members.iter().map(|Member { ident, ty, id, must_understand, .. }| flat::Member {
            ident,
            ty,
            id,
            must_understand: *must_understand,
        });
        flat.collect()
    }

    fn keys(&self) -> Vec<&Member> {
        self.members.iter().filter(|member| member.key).collect()
    }

    fn all(&self) -> Vec<&Member> {
        self.members.iter().collect()
    }

    fn base_type(&self) -> Option<&Type> {
        self.base.as_ref().map(|(_, ty)| ty)
    }

    fn has_own_keys(&self) -> bool {
        self.members.iter().any(|member| member.key)
    }

    fn dds_type(&self) -> TokenStream {
        let (ident, name) = (&self.container.ident, &self.container.name);
        let (extensibility, nested) = (self.container.extensibility().tokens(), self.container.nested);
        let length_code = self.container.extensibility().length_code();
        let (layout, key, defaults, clear) =
            (self.layout(), self.key_items(), self.default_value(), self.clear_non_key());
        let obstacle = self.obstacle();
        let generated = self.base_type().into_iter().chain(self.members.iter().map(|member| &member.ty));
        let generated =
            generated.map(|ty| quote_spanned!(syntax::span_of(ty) => __xt::private::provenance::member::<#ty>));
        quote! {
            #[automatically_derived]
            impl __xt::DdsType for #ident {
                const TYPE_NAME: &'static str = #name;
                const EXTENSIBILITY: __xt::Extensibility = #extensibility;
                const NESTED: bool = #nested;
                const LENGTH_CODE: __xt::LengthCode = #length_code;
                const MIN_SIZE: usize = __xt::private::facts::min_size(
                    #extensibility,
                    <Self as __xt::Structure>::MEMBER_MIN_SIZE,
                );
                const EXTENTS: __xt::Extents = __xt::private::facts::extents(
                    #extensibility,
                    <Self as __xt::Structure>::MEMBER_EXTENTS,
                );
                #layout
                #key

                #[inline]
                fn encode<S: __xt::Sink>(
                    &self,
                    encoder: &mut __xt::Encoder<'_, S>,
                ) -> ::core::result::Result<(), __xt::EncodeError> {
                    __xt::private::structure::encode(self, encoder)
                }

                #[inline]
                fn decode(
                    decoder: &mut __xt::Decoder<'_>,
                ) -> ::core::result::Result<Self, __xt::DecodeError> {
                    __xt::private::structure::decode(decoder)
                }

                fn encode_default<S: __xt::Sink>(
                    encoder: &mut __xt::Encoder<'_, S>,
                ) -> ::core::result::Result<(), __xt::EncodeError> {
                    __xt::private::structure::encode_default::<Self, S>(encoder)
                }

                #[inline]
                fn skip(decoder: &mut __xt::Decoder<'_>) -> ::core::result::Result<(), __xt::DecodeError> {
                    __xt::private::structure::skip::<Self>(decoder)
                }

                fn is_generated(seen: &mut __xt::private::provenance::Seen) -> bool {
                    __xt::private::provenance::all_generated::<Self>(seen, &[ #(#generated),* ])
                }

                #[inline]
                fn transcode_key<S: __xt::Sink>(
                    decoder: &mut __xt::Decoder<'_>,
                    encoder: &mut __xt::Encoder<'_, S>,
                ) -> ::core::result::Result<(), __xt::DecodeError> {
                    __xt::private::structure::transcode_key::<Self, S>(decoder, encoder)
                }

                #defaults
                #clear
                #obstacle
            }
        }
    }

    fn layout(&self) -> TokenStream {
        if !self.container.fixed_layout {
            return TokenStream::new();
        }
        let extensibility = self.container.extensibility().tokens();
        let base = self.base.iter().map(|(ident, _)| ident);
        let members = base.chain(self.members.iter().map(|member| &member.ident));
        quote! {
            const LAYOUT: __xt::plain::Layout<Self> =
                __xt::private::plain_layout!(Self, #extensibility, [ #(#members),* ]);
        }
    }

    /// Generates the function that returns why the structure is not plain.
    fn obstacle(&self) -> TokenStream {
        let is_repr_c = self.container.fixed_layout;
        let base = self.base.iter().map(|(ident, ty)| (ident, ty));
        let members = base.chain(self.members.iter().map(|member| (&member.ident, &member.ty))).map(|(ident, ty)| {
            let name = syntax::idl_name(ident);
            quote! {
                __xt::private::obstacle::MemberFacts {
                    name: #name,
                    offset: ::core::mem::offset_of!(Self, #ident),
                    size: ::core::mem::size_of::<#ty>(),
                    obstacle: <#ty as __xt::Member>::obstacle,
                }
            }
        });
        quote! {
            fn obstacle(
                representation: __xt::Representation,
            ) -> ::core::option::Option<__xt::private::obstacle::Obstacle> {
                if <Self as __xt::DdsType>::LAYOUT.is_borrowable(representation) {
                    return ::core::option::Option::None;
                }
                let structure = __xt::private::obstacle::Structure {
                    type_name: <Self as __xt::DdsType>::TYPE_NAME,
                    extensibility: <Self as __xt::DdsType>::EXTENSIBILITY,
                    is_repr_c: #is_repr_c,
                    size: ::core::mem::size_of::<Self>(),
                    members: &[ #(#members),* ],
                };
                ::core::option::Option::Some(structure.obstacle(representation))
            }
        }
    }

    fn key_items(&self) -> TokenStream {
        match (&self.base, self.has_own_keys()) {
            (_, true) => self.own_key_items(),
            (Some((ident, base)), false) => self.inherited_key_items(ident, base),
            (None, false) => self.keyless_items(),
        }
    }

    /// A structure without key members, used as a key member, is a key as a whole.
    fn keyless_items(&self) -> TokenStream {
        let facts = key_facts(&sorted(&self.all()));
        let member_key = whole_member_key();
        quote! {
            const MEMBER_KEY: __xt::KeyFacts = __xt::private::facts::key(__xt::KeyFacts::EMPTY, #facts);
            type Key = ();
            fn key(&self) {}
            #member_key
        }
    }

    /// Only the compiler knows whether the base structure has key members.
    fn inherited_key_items(&self, ident: &Ident, base: &Type) -> TokenStream {
        let facts = key_facts(&sorted(&self.all()));
        let member_key = whole_member_key();
        quote! {
            const HAS_KEY: bool = <#base as __xt::DdsType>::HAS_KEY;
            const TOPIC_KEY: __xt::KeyFacts = <#base as __xt::DdsType>::TOPIC_KEY;
            const MEMBER_KEY: __xt::KeyFacts = if Self::HAS_KEY {
                Self::TOPIC_KEY
            } else {
                __xt::private::facts::key(<#base as __xt::DdsType>::MEMBER_KEY, #facts)
            };
            type Key = <#base as __xt::DdsType>::Key;
            fn key(&self) -> Self::Key {
                <#base as __xt::DdsType>::key(&self.#ident)
            }
            #member_key
        }
    }

    fn own_key_items(&self) -> TokenStream {
        let facts = key_facts(&sorted(&self.keys()));
        let base_facts = match self.base_type() {
            Some(base) => quote!(<#base as __xt::DdsType>::TOPIC_KEY),
            None => quote!(__xt::KeyFacts::EMPTY),
        };
        let base_type = self.base.iter().map(|(_, base)| quote!(<#base as __xt::DdsType>::Key));
        let base_value = self.base.iter().map(|(ident, base)| quote!(<#base as __xt::DdsType>::key(&self.#ident)));
        let types = self.keys().into_iter().map(|member| {
            let ty = &member.ty;
            quote!(<#ty as __xt::DdsType>::MemberKey)
        });
        let values = self.keys().into_iter().map(|member| {
            let (ident, ty) = (&member.ident, &member.ty);
            quote!(<#ty as __xt::DdsType>::member_key(&self.#ident))
        });
        let types = syntax::tuple(&base_type.chain(types).collect::<Vec<_>>());
        let values = syntax::tuple(&base_value.chain(values).collect::<Vec<_>>());
        quote! {
            const HAS_KEY: bool = true;
            const TOPIC_KEY: __xt::KeyFacts = __xt::private::facts::key(#base_facts, #facts);
            const MEMBER_KEY: __xt::KeyFacts = Self::TOPIC_KEY;
            type Key = #types;
            type MemberKey = #types;
            fn key(&self) -> Self::Key {
                #values
            }
            fn member_key(&self) -> Self::MemberKey {
                #values
            }
        }
    }

    fn default_value(&self) -> TokenStream {
        let base = self.base.iter().map(|(ident, ty)| quote!(#ident: <#ty as __xt::DdsType>::default_value()));
        let own = self.members.iter().map(|member| {
            let (ident, path) = (&member.ident, member.path());
            quote!(#ident: #path::absent())
        });
        let fields = base.chain(own);
        quote! {
            fn default_value() -> Self {
                Self { #(#fields),* }
            }
        }
    }

    fn clear_non_key(&self) -> TokenStream {
        let clear = |ident: &Ident, ty: &Type| quote!(<#ty as __xt::Member>::clear_non_key(&mut self.#ident););
        let reset = |ident: &Ident, ty: &Type| quote!(self.#ident = <#ty as __xt::Member>::absent(););
        let (base_ident, base_type) = (self.base.iter().map(|(i, _)| i), self.base_type().into_iter());
        let base = quote! { #(
            if <#base_type as __xt::DdsType>::HAS_KEY || !Self::HAS_KEY {
                <#base_type as __xt::DdsType>::clear_non_key(&mut self.#base_ident);
            } else {
                self.#base_ident = <#base_type as __xt::DdsType>::default_value();
            }
        )* };
        let of_key = self.members.iter().map(|m| if m.key { clear(&m.ident, &m.ty) } else { reset(&m.ident, &m.ty) });
        let of_all = self.members.iter().map(|m| clear(&m.ident, &m.ty));
        quote! {
            fn clear_non_key(&mut self) {
                #base
                if <Self as __xt::DdsType>::HAS_KEY {
                    #(#of_key)*
                } else {
                    #(#of_all)*
                }
            }
        }
    }

    fn members_impl(&self) -> TokenStream {
        let ident = &self.container.ident;
        let extensibility = self.container.extensibility().tokens();
        let ids = self.members.iter().map(|member| &member.id);
        let facts = self.members.iter().map(|member| {
            let (ty, id) = (&member.ty, &member.id);
            quote!(__xt::private::facts::member::<#ty>(#extensibility, #id))
        });
        let min_sizes = self.members.iter().map(|member| {
            let ty = &member.ty;
            quote!(<#ty as __xt::Member>::MIN_SIZE)
        });
        let base = self.base_type();
        let next_id = match (self.members.last(), base) {
            (Some(member), _) => {
                let id = &member.id;
                quote!(#id + 1u32)
            }
            (None, Some(base)) => quote!(<#base as __xt::Structure>::NEXT_ID),
            (None, None) => quote!(0u32),
        };
        let base_chain = match base {
            Some(base) => quote!(::core::option::Option::Some(&<#base as __xt::Structure>::IDS)),
            None => quote!(::core::option::Option::None),
        };
        let (base_extents, base_min) = match base {
            Some(base) => (
                quote!(<#base as __xt::Structure>::MEMBER_EXTENTS),
                quote!(<#base as __xt::Structure>::MEMBER_MIN_SIZE),
            ),
            None => (quote!(__xt::Extents::EMPTY), quote!(0)),
        };
        let (encode, decode, walk) = (self.encode_fns(), self.decode_fns(), self.walk_fns());
        quote! {
            #[automatically_derived]
            impl __xt::Structure for #ident {
                const NEXT_ID: u32 = #next_id;
                const IDS: __xt::private::IdChain =
                    __xt::private::IdChain { own: &[ #(#ids),* ], base: #base_chain };
                const MEMBER_EXTENTS: __xt::Extents =
                    __xt::private::facts::member_extents(#base_extents, &[ #(#facts),* ]);
                const MEMBER_MIN_SIZE: usize = __xt::private::facts::member_min_size(#base_min, &[ #(#min_sizes),* ]);
                #encode
                #decode
                #walk
            }
        }
    }

    fn encode_fns(&self) -> TokenStream {
        let (base_ident, base) = (self.base.iter().map(|(i, _)| i).collect::<Vec<_>>(), self.base_type().into_iter());
        let base = base.collect::<Vec<_>>();
        let statement = |member: &Member| {
            let (ident, id, path, must_understand) = (&member.ident, &member.id, member.path(), member.must_understand);
            quote!(#path::encode_member(&self.#ident, encoder, extensibility, #id, #must_understand)?;)
        };
        let default_statement = |member: &Member| {
            let (id, path, must_understand) = (&member.id, member.path(), member.must_understand);
            quote!(#path::encode_default_member(encoder, extensibility, #id, #must_understand)?;)
        };
        let (all, keys) = (self.all(), self.keys());
        let (default_all, default_keys) = (encode_list(&all, default_statement), encode_list(&keys, default_statement));
        let (all, keys) = (encode_list(&all, statement), encode_list(&keys, statement));
        quote! {
            #[inline]
            fn encode_members<S: __xt::Sink>(
                &self,
                encoder: &mut __xt::Encoder<'_, S>,
                extensibility: __xt::Extensibility,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                #(<#base as __xt::Structure>::encode_members(&self.#base_ident, encoder, extensibility)?;)*
                #all
                ::core::result::Result::Ok(())
            }

            fn encode_key_members<S: __xt::Sink>(
                &self,
                encoder: &mut __xt::Encoder<'_, S>,
                extensibility: __xt::Extensibility,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                #(if <#base as __xt::DdsType>::HAS_KEY {
                    <#base as __xt::Structure>::encode_key_members(&self.#base_ident, encoder, extensibility)?;
                })*
                #keys
                ::core::result::Result::Ok(())
            }

            fn encode_default_members<S: __xt::Sink>(
                encoder: &mut __xt::Encoder<'_, S>,
                extensibility: __xt::Extensibility,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                #(<#base as __xt::Structure>::encode_default_members(encoder, extensibility)?;)*
                #default_all
                ::core::result::Result::Ok(())
            }

            fn encode_default_key_members<S: __xt::Sink>(
                encoder: &mut __xt::Encoder<'_, S>,
                extensibility: __xt::Extensibility,
            ) -> ::core::result::Result<(), __xt::EncodeError> {
                #(if <#base as __xt::DdsType>::HAS_KEY {
                    <#base as __xt::Structure>::encode_default_key_members(encoder, extensibility)?;
                })*
                #default_keys
                ::core::result::Result::Ok(())
            }
        }
    }

    fn decode_fns(&self) -> TokenStream {
        let base_ident = self.base.iter().map(|(i, _)| i).collect::<Vec<_>>();
        let base = self.base_type().into_iter().collect::<Vec<_>>();
        let members = self.members.iter().map(|member| {
            let (ident, path) = (&member.ident, member.path());
            quote!(#ident: #path::decode_member(decoder, extensibility)?)
        });
        let keys = self.keys().into_iter().map(|member| {
            let (ident, path) = (&member.ident, member.path());
            quote!(self.#ident = #path::decode_member(decoder, extensibility)?;)
        });
        let parameters = self.members.iter().map(|member| {
            let (ident, id, path) = (&member.ident, &member.id, member.path());
            quote! {
                if id == #id {
                    self.#ident = #path::decode_parameter(decoder)?;
                    return ::core::result::Result::Ok(true);
                }
            }
        });
        quote! {
            #[inline]
            fn decode_members(
                decoder: &mut __xt::Decoder<'_>,
                extensibility: __xt::Extensibility,
            ) -> ::core::result::Result<Self, __xt::DecodeError> {
                ::core::result::Result::Ok(Self {
                    #(#base_ident: <#base as __xt::Structure>::decode_members(decoder, extensibility)?,)*
                    #(#members,)*
                })
            }

            fn decode_key_members(
                &mut self,
                decoder: &mut __xt::Decoder<'_>,
                extensibility: __xt::Extensibility,
            ) -> ::core::result::Result<(), __xt::DecodeError> {
                #(if <#base as __xt::DdsType>::HAS_KEY {
                    <#base as __xt::Structure>::decode_key_members(&mut self.#base_ident, decoder, extensibility)?;
                })*
                #(#keys)*
                ::core::result::Result::Ok(())
            }

            fn decode_parameter(
                &mut self,
                decoder: &mut __xt::Decoder<'_>,
                id: u32,
            ) -> ::core::result::Result<bool, __xt::DecodeError> {
                #(#parameters)*
                #(if <#base as __xt::Structure>::decode_parameter(&mut self.#base_ident, decoder, id)? {
                    return ::core::result::Result::Ok(true);
                })*
                ::core::result::Result::Ok(false)
            }
        }
    }

    fn walk_fns(&self) -> TokenStream {
        let base = self.base_type().into_iter().collect::<Vec<_>>();
        let (skip_all, skip_keys) = (skip_list(&self.all()), skip_list(&self.keys()));
        let (all, keys) = (self.transcode(&self.all()), self.transcode(&self.keys()));
        quote! {
            #[inline]
            fn skip_members(
                decoder: &mut __xt::Decoder<'_>,
                extensibility: __xt::Extensibility,
            ) -> ::core::result::Result<(), __xt::DecodeError> {
                if <Self as __xt::DdsType>::HAS_KEY && decoder.form() != __xt::Form::Data {
                    #(if <#base as __xt::DdsType>::HAS_KEY {
                        <#base as __xt::Structure>::skip_members(decoder, extensibility)?;
                    })*
                    #skip_keys
                } else {
                    #(<#base as __xt::Structure>::skip_members(decoder, extensibility)?;)*
                    #skip_all
                }
                ::core::result::Result::Ok(())
            }

            fn transcode_all_members<S: __xt::Sink>(
                decoder: &mut __xt::Decoder<'_>,
                extensibility: __xt::Extensibility,
                encoder: &mut __xt::Encoder<'_, S>,
                tail: bool,
            ) -> ::core::result::Result<(), __xt::DecodeError> {
                #(<#base as __xt::Structure>::transcode_all_members(decoder, extensibility, encoder, true)?;)*
                let every = true;
                #all
                ::core::result::Result::Ok(())
            }

            #[inline]
            fn transcode_key_members<S: __xt::Sink>(
                decoder: &mut __xt::Decoder<'_>,
                extensibility: __xt::Extensibility,
                encoder: &mut __xt::Encoder<'_, S>,
                tail: bool,
            ) -> ::core::result::Result<(), __xt::DecodeError> {
                let every = decoder.form() == __xt::Form::Data;
                #(if <#base as __xt::DdsType>::HAS_KEY {
                    <#base as __xt::Structure>::transcode_key_members(decoder, extensibility, encoder, true)?;
                } else if every && extensibility != __xt::Extensibility::Mutable {
                    <#base as __xt::Structure>::skip_members(decoder, extensibility)?;
                })*
                #keys
                ::core::result::Result::Ok(())
            }
        }
    }

    /// Reads and writes the `selected` members: by ascending id in a key that is hashed, otherwise as declared. `every`
    /// states whether the payload also has the other members.
    fn transcode(&self, selected: &[&Member]) -> TokenStream {
        if self.container.extensibility() == Extensibility::Mutable {
            let members = encode_list(selected, |member| {
                let (id, path, must_understand) = (&member.id, member.path(), member.must_understand);
                quote!(#path::transcode_parameter(decoder, encoder, #id, #must_understand)?;)
            });
            return quote! { let _ = (every, tail, extensibility); #members };
        }
        let in_order = is_sorted(selected);
        let is_selected = |member: &Member| selected.iter().any(|other| other.ident == member.ident);
        let last = self.members.iter().rposition(is_selected).map_or(0, |last| last + 1);
        let (walked, rest) = self.members.split_at(last);
        let walked = walked.iter().map(|member| {
            let (path, at) = (member.path(), bookmark(member));
            let (id, must_understand) = (&member.id, member.must_understand);
            match (is_selected(member), in_order) {
                (true, true) => quote! {
                    #path::transcode_member(decoder, extensibility, encoder, #id, #must_understand)?;
                },
                (true, false) => quote! {
                    let mut #at = ::core::clone::Clone::clone(&*decoder);
                    #path::skip_member(decoder, extensibility)?;
                },
                (false, _) => quote!(if every { #path::skip_member(decoder, extensibility)?; }),
            }
        });
        let from_bookmarks = encode_list(if in_order { &[] } else { selected }, |member| {
            let (path, at) = (member.path(), bookmark(member));
            let (id, must_understand) = (&member.id, member.must_understand);
            quote!(#path::transcode_member(&mut #at, extensibility, encoder, #id, #must_understand)?;)
        });
        let rest = rest.iter().map(Member::path);
        quote! {
            #(#walked)*
            #from_bookmarks
            if tail && every {
                #(#rest::skip_member(decoder, extensibility)?;)*
            }
        }
    }

    /// Generates checks that depend on the base structure, which only the compiler knows.
    fn checks(&self) -> TokenStream {
        let Some(base) = self.base_type() else { return TokenStream::new() };
        let ident = &self.container.ident;
        let extensibility = self.container.extensibility().tokens();
        let key_ids = self.keys().into_iter().map(|member| &member.id).collect::<Vec<_>>();
        quote_spanned! { syntax::span_of(base) =>
            const _: () = {
                ::core::assert!(
                    <#base as __xt::DdsType>::EXTENSIBILITY as u8 == #extensibility as u8,
                    "a structure and its base structure have the same extensibility"
                );
                ::core::assert!(
                    <#ident as __xt::Structure>::IDS.is_valid(),
                    "a member id is already in use in the base structure, or exceeds 28 bits"
                );
                ::core::assert!(
                    __xt::private::IdChain::ascends(&[ #(#key_ids),* ]),
                    "in a structure with a base structure, the ids of the key members ascend"
                );
            };
        }
    }
}

fn whole_member_key() -> TokenStream {
    quote! {
        type MemberKey = Self;
        fn member_key(&self) -> Self {
            let mut key = ::core::clone::Clone::clone(self);
            <Self as __xt::DdsType>::clear_non_key(&mut key);
            key
        }
    }
}

/// The facts of members in a key. A declared key member is measured through its box: a key member cannot be recursive.
fn key_facts(members: &[&Member]) -> TokenStream {
    let types = members.iter().map(|member| if member.key { unboxed(&member.ty) } else { &member.ty });
    quote!(&[ #(__xt::private::facts::member_key::<#types>()),* ])
}

fn unboxed(ty: &Type) -> &Type {
    let Type::Path(path) = ty else { return ty };
    let Some(segment) = path.path.segments.last().filter(|segment| segment.ident == "Box") else { return ty };
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return ty };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) => unboxed(inner),
        _ => ty,
    }
}

/// Sorts the members by ascending id. Ids that depend on a base structure keep their order, which the compiler checks.
fn sorted<'m>(members: &[&'m Member]) -> Vec<&'m Member> {
    let mut members = members.to_vec();
    if members.iter().all(|member| member.known_id.is_some()) {
        members.sort_by_key(|member| member.known_id);
    }
    members
}

fn is_sorted(members: &[&Member]) -> bool {
    sorted(members).iter().zip(members).all(|(left, right)| left.ident == right.ident)
}

/// Generates a statement for each member that is written: by ascending id in a key that is hashed, otherwise as
/// declared.
fn encode_list(members: &[&Member], statement: impl Fn(&Member) -> TokenStream) -> TokenStream {
    let declared = members.iter().map(|member| statement(member));
    if is_sorted(members) {
        return quote! { #(#declared)* };
    }
    let by_id = sorted(members);
    let by_id = by_id.iter().map(|member| statement(member));
    quote! {
        if encoder.form() == __xt::Form::KeyHash {
            #(#by_id)*
        } else {
            #(#declared)*
        }
    }
}

fn skip_list(members: &[&Member]) -> TokenStream {
    let paths = members.iter().map(|member| member.path());
    quote! { #(#paths::skip_member(decoder, extensibility)?;)* }
}

fn bookmark(member: &Member) -> Ident {
    quote::format_ident!("at_{}", member.ident)
}
