//! `#[dds(flat)]`: builders and views of the XCDR2 form.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Error, Ident, Result, Type};

use crate::attributes::{Container, Extensibility};
use crate::syntax;

/// A member of a structure.
pub(crate) struct Member<'m> {
    pub(crate) ident: &'m Ident,
    pub(crate) ty: &'m Type,
    pub(crate) id: &'m TokenStream,
    pub(crate) must_understand: bool,
}

impl Member<'_> {
    fn path(&self) -> TokenStream {
        let ty = self.ty;
        quote_spanned! { syntax::span_of(ty) => <#ty as __xt::flat::FlatMember> }
    }

    fn value(&self) -> TokenStream {
        let ty = self.ty;
        quote_spanned! { syntax::span_of(ty) => <#ty as __xt::Member>::Value }
    }

    /// An item of [`path`](Self::path). The compiler reports its errors at the type in the source.
    fn item(&self, item: &TokenStream) -> TokenStream {
        let path = self.path();
        quote_spanned! { syntax::span_of(self.ty) => #path::#item }
    }

    /// An item of the value's flat type. The compiler reports its errors at the type in the source.
    fn value_item(&self, item: &TokenStream) -> TokenStream {
        let value = self.value();
        quote_spanned! { syntax::span_of(self.ty) => <#value as __xt::flat::FlatType>::#item }
    }

    /// The bound of a closure that builds the value.
    fn build_bound(&self) -> TokenStream {
        let value = self.value();
        quote_spanned! { syntax::span_of(self.ty) => for<'x> __xt::flat::Build<'x, #value> }
    }

    fn name(&self) -> String {
        syntax::idl_name(self.ident)
    }

    /// The name of the method for this member that ends in `suffix`.
    fn method(&self, suffix: &str) -> Ident {
        Ident::new(&format!("{}_{suffix}", self.name()), self.ident.span())
    }
}

struct Structure<'s> {
    container: &'s Container,
    members: Vec<Member<'s>>,
    view: Ident,
    view_mut: Ident,
    builder: Ident,
}

/// The flat form of a structure.
pub(crate) fn structure(container: &Container, base: Option<Span>, members: Vec<Member<'_>>) -> Result<TokenStream> {
    if container.flat.is_none() {
        return Ok(TokenStream::new());
    }
    if let Some(span) = base {
        return Err(Error::new(
            span,
            "a structure with a base structure has no flat form: write the members of the base structure here, or make it a member",
        ));
    }
    if let Some(member) =
        members.iter().find(|member| container.extensibility() == Extensibility::Mutable && member.name() == "finish")
    {
        return Err(Error::new(
            member.ident.span(),
            "no member of a flat mutable structure is called `finish`: so is the last method of its builder",
        ));
    }
    let ident = &container.ident;
    let structure = Structure {
        container,
        members,
        view: format_ident!("{ident}View"),
        view_mut: format_ident!("{ident}ViewMut"),
        builder: format_ident!("{ident}Builder"),
    };
    let (views, builder, flat_type) = (structure.views(), structure.builder(), structure.flat_type());
    Ok(quote! { #views #builder #flat_type })
}

impl Structure<'_> {
    fn is_mutable(&self) -> bool {
        self.container.extensibility() == Extensibility::Mutable
    }

    /// The types themselves, which are named outside of the block that contains the rest of the generated code.
    fn types(&self) -> TokenStream {
        let (runtime, vis, ident) = (&self.container.runtime, &self.container.vis, &self.container.ident);
        let (view, view_mut, builder, count) = (&self.view, &self.view_mut, &self.builder, self.members.len());
        let view_doc = format!("`{ident}` in a payload.");
        let view_mut_doc = format!("`{ident}` in a payload, whose members of fixed size can be changed in place.");
        let builder_type = if self.is_mutable() {
            let doc = format!("Builds `{ident}` in a payload. Members come in any order.");
            quote! {
                #[doc = #doc]
                #[must_use = "nothing is built without `finish`"]
                #vis struct #builder<'w> {
                    writer: #runtime::flat::private::ParametersWriter<'w, #ident, #count>,
                }
            }
        } else {
            let doc = format!(
                "Builds `{ident}` in a payload. Members come in their order; `NEXT` is the position of the one that comes next."
            );
            quote! {
                #[doc = #doc]
                #[must_use = "nothing is built without `finish`"]
                #vis struct #builder<'w, const NEXT: usize = 0> {
                    writer: #runtime::flat::private::StructureWriter<'w, #ident>,
                }
            }
        };
        quote! {
            #[doc = #view_doc]
            #[derive(Clone, Copy)]
            #[allow(dead_code)]
            #vis struct #view<'a> {
                members: #runtime::flat::private::Members<'a, #count>,
            }

            #[doc = #view_mut_doc]
            #[allow(dead_code)]
            #vis struct #view_mut<'a> {
                members: #runtime::flat::private::MembersMut<'a, #count>,
            }

            #[derive(Debug)]
            #[allow(dead_code)]
            #builder_type
        }
    }

    fn views(&self) -> TokenStream {
        let (vis, name, type_name) = (&self.container.vis, self.container.ident.to_string(), &self.container.name);
        let (view, view_mut) = (&self.view, &self.view_mut);
        let getters = self.members.iter().enumerate().map(|(index, member)| {
            let (ident, ty, view) = (member.ident, member.ty, member.item(&quote!(View<'a>)));
            let doc = format!("The member `{}`.", member.name());
            let get = if self.is_mutable() {
                quote!(self.members.get_of::<#ty>(#index, &Self::__LAYOUT))
            } else {
                quote!(self.members.get::<#ty>(#index))
            };
            quote! {
                #[doc = #doc]
                #[inline]
                #[must_use]
                #vis fn #ident(&self) -> #view {
                    #get
                }
            }
        });
        let getters_mut = self.members.iter().enumerate().map(|(index, member)| {
            let (method, ty, name) = (member.method("mut"), member.ty, member.name());
            let view = member.value_item(&quote!(ViewMut<'_>));
            let doc = format!("The member `{name}`, for changes in place.\n\n# Errors\n`AbsentMember`.");
            quote! {
                #[doc = #doc]
                #vis fn #method(
                    &mut self,
                ) -> ::core::result::Result<#view, __xt::flat::FlatError> {
                    self.members.get::<#ty>(#index, #type_name, #name)
                }
            }
        });
        let fields = self.members.iter().map(|member| {
            let (ident, name) = (member.ident, member.name());
            quote!(.field(#name, &self.#ident()))
        });
        quote! {
            #[allow(dead_code)]
            impl<'a> #view<'a> {
                #(#getters)*
            }

            #[allow(dead_code)]
            impl #view_mut<'_> {
                #(#getters_mut)*
            }

            #[automatically_derived]
            impl ::core::fmt::Debug for #view<'_> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    f.debug_struct(#name)#(#fields)*.finish()
                }
            }

            #[automatically_derived]
            impl ::core::fmt::Debug for #view_mut<'_> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    ::core::fmt::Debug::fmt(&#view { members: self.members.as_ref() }, f)
                }
            }
        }
    }

    fn builder(&self) -> TokenStream {
        if self.is_mutable() { self.builder_in_any_order() } else { self.builder_in_order() }
    }

    fn builder_in_order(&self) -> TokenStream {
        let (vis, ident, builder, count) =
            (&self.container.vis, &self.container.ident, &self.builder, self.members.len());
        let steps = self.members.iter().enumerate().map(|(index, member)| {
            let (method, with, ty) = (member.ident, member.method("with"), member.ty);
            let (input, build) = (member.item(&quote!(Input<'_>)), member.build_bound());
            let (doc, doc_with) = docs(member);
            let next = index + 1;
            quote! {
                #[allow(dead_code)]
                impl<'w> #builder<'w, #index> {
                    #[doc = #doc]
                    #[inline]
                    #vis fn #method(
                        mut self,
                        value: #input,
                    ) -> ::core::result::Result<#builder<'w, #next>, __xt::flat::FlatError> {
                        self.writer.member::<#ty>(value)?;
                        ::core::result::Result::Ok(#builder { writer: self.writer })
                    }

                    #[doc = #doc_with]
                    #[inline]
                    #vis fn #with<F>(
                        mut self,
                        build: F,
                    ) -> ::core::result::Result<#builder<'w, #next>, __xt::flat::FlatError>
                    where
                        F: #build,
                    {
                        self.writer.member_with::<#ty, F>(build)?;
                        ::core::result::Result::Ok(#builder { writer: self.writer })
                    }
                }
            }
        });
        quote! {
            #(#steps)*

            #[allow(dead_code)]
            impl<'w> #builder<'w, #count> {
                #[doc = "Ends the structure.\n\n# Errors\nThose of `FlatError::Encode`."]
                #[inline]
                #vis fn finish(
                    self,
                ) -> ::core::result::Result<__xt::flat::Done<'w, #ident>, __xt::flat::FlatError> {
                    self.writer.close()
                }
            }
        }
    }

    fn builder_in_any_order(&self) -> TokenStream {
        let (vis, ident, builder) = (&self.container.vis, &self.container.ident, &self.builder);
        let methods = self.members.iter().enumerate().map(|(index, member)| {
            let (method, with, ty) = (member.ident, member.method("with"), member.ty);
            let (input, build) = (member.item(&quote!(Input<'_>)), member.build_bound());
            let (id, must_understand, name) = (member.id, member.must_understand, member.name());
            let (doc, doc_with) = docs(member);
            let parameter = quote! {
                __xt::flat::private::Parameter {
                    index: #index,
                    name: #name,
                    id: #id,
                    must_understand: #must_understand,
                }
            };
            quote! {
                #[doc = #doc]
                #[inline]
                #vis fn #method(
                    mut self,
                    value: #input,
                ) -> ::core::result::Result<Self, __xt::flat::FlatError> {
                    self.writer.member::<#ty>(#parameter, value)?;
                    ::core::result::Result::Ok(self)
                }

                #[doc = #doc_with]
                #[inline]
                #vis fn #with<F>(mut self, build: F) -> ::core::result::Result<Self, __xt::flat::FlatError>
                where
                    F: #build,
                {
                    self.writer.member_with::<#ty, F>(#parameter, build)?;
                    ::core::result::Result::Ok(self)
                }
            }
        });
        let facts = self.members.iter().map(|member| {
            let (name, ty) = (member.name(), member.ty);
            quote!((#name, <#ty as __xt::Member>::OPTIONAL))
        });
        quote! {
            #[allow(dead_code)]
            impl<'w> #builder<'w> {
                #(#methods)*

                #[doc = "Ends the structure.\n\n# Errors\n`FlatError::MissingMember`, and those of `FlatError::Encode`."]
                #[inline]
                #vis fn finish(
                    self,
                ) -> ::core::result::Result<__xt::flat::Done<'w, #ident>, __xt::flat::FlatError> {
                    self.writer.close(&[ #(#facts),* ])
                }
            }
        }
    }

    fn flat_type(&self) -> TokenStream {
        let ident = &self.container.ident;
        let (view, view_mut, builder) = (&self.view, &self.view_mut, &self.builder);
        let is_final = self.container.extensibility() == Extensibility::Final;
        let fixed = self.members.iter().map(|member| member.item(&quote!(FIXED)));
        let any_bits = self.members.iter().map(|member| member.value_item(&quote!(ANY_BITS)));
        let (check, find, count) = (self.check(), self.find(), self.members.len());
        let checked_view = self.is_mutable().then(|| self.checked_view());
        let is_quick = self.is_mutable().then(|| quote!(let is_quick = #view::__quick(decoder.clone()).is_some();));
        let quick = self.is_mutable().then(|| self.quick());
        let writer = if self.is_mutable() { quote!(ParametersWriter) } else { quote!(StructureWriter) };
        quote! {
            impl<'a> #view<'a> {
                #[inline]
                fn __find(
                    decoder: ::core::option::Option<__xt::Decoder<'a>>,
                    to_change: bool,
                ) -> __xt::flat::private::Members<'a, #count> {
                    #find
                }

                #quick
            }

            #[automatically_derived]
            impl __xt::flat::FlatType for #ident {
                type View<'a> = #view<'a>;
                type ViewMut<'a> = #view_mut<'a>;
                type Builder<'w> = #builder<'w>;
                type Built = Self;
                type Input<'v> = &'v Self;
                const FIXED: bool = #is_final #(&& #fixed)*;
                const ANY_BITS: bool = true #(&& #any_bits)*;

                fn check(decoder: &mut __xt::Decoder<'_>) -> ::core::result::Result<(), __xt::DecodeError> {
                    #is_quick
                    let aggregate = decoder.begin_aggregate(<Self as __xt::DdsType>::EXTENSIBILITY)?;
                    #check
                    decoder.end_aggregate(aggregate);
                    ::core::result::Result::Ok(())
                }

                #[inline]
                fn view<'a>(decoder: ::core::option::Option<__xt::Decoder<'a>>) -> #view<'a> {
                    #view { members: #view::__find(decoder, false) }
                }

                #checked_view

                fn view_mut<'a>(bytes: &'a mut [u8], place: __xt::flat::private::Place) -> #view_mut<'a> {
                    let decoder = __xt::flat::private::decoder(bytes, place);
                    let positions = #view::__find(::core::option::Option::Some(decoder), true).positions();
                    #view_mut { members: __xt::flat::private::MembersMut::new(bytes, positions) }
                }

                #[inline]
                fn builder<'w>(
                    writer: __xt::flat::Writer<'w>,
                ) -> ::core::result::Result<#builder<'w>, __xt::flat::FlatError> {
                    ::core::result::Result::Ok(#builder { writer: __xt::flat::private::#writer::new(writer)? })
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

    fn check(&self) -> TokenStream {
        let (paths, ids) = (self.members.iter().map(Member::path), self.members.iter().map(|member| member.id));
        if !self.is_mutable() {
            return quote! {
                #(#paths::check_member(decoder, <Self as __xt::DdsType>::EXTENSIBILITY)?;)*
            };
        }
        quote! {
            // Members that were read by the fast path are valid, and leaving the structure skips them.
            if !is_quick {
                while let ::core::option::Option::Some(parameter) = decoder.next_parameter()? {
                    #(if parameter.id == #ids {
                        #paths::check_parameter(decoder)?;
                        decoder.end_parameter(parameter);
                    } else)* {
                        decoder.skip_unknown(parameter)?;
                    }
                }
            }
        }
    }

    /// Generated for mutable structures only: the members of other structures are found by offsets, or checked and
    /// found separately.
    fn checked_view(&self) -> TokenStream {
        let (view, count) = (&self.view, self.members.len());
        let (indices, types, ids) = (self.indices(), self.types_of_members(), self.ids());
        quote! {
            fn checked_view<'a>(
                decoder: __xt::Decoder<'a>,
            ) -> ::core::result::Result<#view<'a>, __xt::DecodeError> {
                #[allow(unused_mut)]
                let (mut walk, mut list) = __xt::flat::private::Walk::<'a, Self, #count>::enter(decoder)?;
                // Takes members as long as they come in their order and need no check.
                let _ = true #(&& walk.expected::<#types>(#indices, #ids, &mut list))*;
                while let ::core::option::Option::Some(parameter) = list.next_parameter()? {
                    #(if parameter.id == #ids {
                        walk.parameter::<#types>(#indices, &mut list)?;
                        list.end_parameter(parameter);
                    } else)* {
                        list.skip_unknown(parameter)?;
                    }
                }
                ::core::result::Result::Ok(#view { members: walk.finish() })
            }

            #[inline]
            fn quick_view<'a>(decoder: __xt::Decoder<'a>) -> ::core::option::Option<#view<'a>> {
                #view::__quick(decoder).map(|members| #view { members })
            }
        }
    }

    /// Finds the members of a mutable structure in the layout that this crate writes.
    fn quick(&self) -> TokenStream {
        let (ident, count) = (&self.container.ident, self.members.len());
        let (indices, types, ids) = (self.indices(), self.types_of_members(), self.ids());
        let flags = self.members.iter().map(|member| member.must_understand);
        quote! {
            const __LAYOUT: __xt::flat::private::Layout<#count> =
                __xt::flat::private::Layout::EMPTY #(.then::<#types>(#ids, #flags))*;

            #[inline]
            fn __quick(
                decoder: __xt::Decoder<'a>,
            ) -> ::core::option::Option<__xt::flat::private::Members<'a, #count>> {
                let (mut walk, mut list) = __xt::flat::private::Walk::<'a, #ident, #count>::enter(decoder).ok()?;
                let front = walk.pass(&Self::__LAYOUT, &mut list)?;
                let is_passed = true
                    #(&& (#indices < const { Self::__LAYOUT.count() }
                        || walk.expected::<#types>(#indices, #ids, &mut list)))*;
                if is_passed && list.is_past_parameters() {
                    ::core::option::Option::Some(walk.finish_with(front))
                } else {
                    ::core::option::Option::None
                }
            }
        }
    }

    fn indices(&self) -> Vec<usize> {
        (0..self.members.len()).collect()
    }

    fn types_of_members(&self) -> Vec<&Type> {
        self.members.iter().map(|member| member.ty).collect()
    }

    fn ids(&self) -> Vec<&TokenStream> {
        self.members.iter().map(|member| member.id).collect()
    }

    fn find(&self) -> TokenStream {
        let (ident, count) = (&self.container.ident, self.members.len());
        let types = self.members.iter().map(|member| member.ty).collect::<Vec<_>>();
        let indices = (0..count).collect::<Vec<_>>();
        let (prefixes, walk) = if self.is_mutable() {
            let ids = self.members.iter().map(|member| member.id);
            let walk = quote! {
                if let ::core::option::Option::Some(members) = Self::__quick(decoder.clone()) {
                    return members;
                }
                let mut walk =
                    __xt::flat::private::Walk::<'a, #ident, #count>::open(decoder, __xt::flat::private::Prefix::EMPTY);
                walk.parameters(
                    &[ #((#ids, __xt::flat::private::ParameterFacts::of::<#types>())),* ],
                    to_change,
                );
            };
            (TokenStream::new(), walk)
        } else {
            let names = (0..=count).map(|index| format_ident!("PREFIX_{index}")).collect::<Vec<_>>();
            let (first, before, after) = (&names[0], &names[..count], &names[1..]);
            let prefixes = quote! {
                const #first: __xt::flat::private::Prefix = __xt::flat::private::Prefix::EMPTY;
                #(const #after: __xt::flat::private::Prefix = #before.then::<#types>();)*
            };
            let last = &names[count];
            let walk = quote! {
                #[allow(unused_mut)]
                let mut walk = __xt::flat::private::Walk::<'a, #ident, #count>::open(decoder, #last);
                #(walk.member::<#types>(#indices, #before, #after);)*
            };
            (prefixes, walk)
        };
        quote! {
            #prefixes
            let _ = to_change;
            __xt::flat::private::Members::find(decoder, |decoder| {
                #walk
                walk.finish()
            })
        }
    }
}

fn docs(member: &Member<'_>) -> (String, String) {
    let name = member.name();
    (
        format!("Writes the member `{name}`.\n\n# Errors\nThose of the value."),
        format!("Lets `build` write the member `{name}`.\n\n# Errors\nThose of `build`."),
    )
}

/// The types that the flat form of a structure adds next to it.
pub(crate) fn structure_types(container: &Container, members: Vec<Member<'_>>) -> TokenStream {
    if container.flat.is_none() {
        return TokenStream::new();
    }
    let ident = &container.ident;
    let structure = Structure {
        container,
        members,
        view: format_ident!("{ident}View"),
        view_mut: format_ident!("{ident}ViewMut"),
        builder: format_ident!("{ident}Builder"),
    };
    structure.types()
}

/// The flat form of a type that is read and written as a single value.
pub(crate) fn scalar(container: &Container, any_bits: bool) -> TokenStream {
    if container.flat.is_none() {
        return TokenStream::new();
    }
    let ident = &container.ident;
    quote! { __xt::flat::private::flat_scalar!(#ident, any_bits: #any_bits); }
}

/// The flat form of an alias, which is that of its type.
pub(crate) fn alias(container: &Container, ty: &Type) -> TokenStream {
    if container.flat.is_none() {
        return TokenStream::new();
    }
    let ident = &container.ident;
    let inner = quote_spanned! { syntax::span_of(ty) => <#ty as __xt::flat::FlatType> };
    quote! {
        #[automatically_derived]
        impl __xt::flat::FlatType for #ident {
            type View<'a> = #inner::View<'a>;
            type ViewMut<'a> = #inner::ViewMut<'a>;
            type Builder<'w> = #inner::Builder<'w>;
            type Built = #inner::Built;
            type Input<'v> = #inner::Input<'v>;
            const FIXED: bool = #inner::FIXED;
            const ANY_BITS: bool = #inner::ANY_BITS;
            const NEEDS_NO_LOOK: bool = #inner::NEEDS_NO_LOOK;
            const NUMBERS: ::core::option::Option<(usize, usize)> = #inner::NUMBERS;
            const LEADS_WITH_LENGTH: bool = #inner::LEADS_WITH_LENGTH;

            #[inline]
            fn check(decoder: &mut __xt::Decoder<'_>) -> ::core::result::Result<(), __xt::DecodeError> {
                #inner::check(decoder)
            }

            #[inline]
            fn view<'a>(decoder: ::core::option::Option<__xt::Decoder<'a>>) -> #inner::View<'a> {
                #inner::view(decoder)
            }

            #[inline]
            fn checked_view<'a>(
                decoder: __xt::Decoder<'a>,
            ) -> ::core::result::Result<#inner::View<'a>, __xt::DecodeError> {
                #inner::checked_view(decoder)
            }

            #[inline]
            fn native(bytes: &[u8]) -> ::core::option::Option<#inner::View<'_>> {
                #inner::native(bytes)
            }

            #[inline]
            fn quick_view<'a>(decoder: __xt::Decoder<'a>) -> ::core::option::Option<#inner::View<'a>> {
                #inner::quick_view(decoder)
            }

            fn view_mut<'a>(bytes: &'a mut [u8], place: __xt::flat::private::Place) -> #inner::ViewMut<'a> {
                #inner::view_mut(bytes, place)
            }

            fn builder<'w>(
                writer: __xt::flat::Writer<'w>,
            ) -> ::core::result::Result<#inner::Builder<'w>, __xt::flat::FlatError> {
                #inner::builder(writer)
            }

            #[inline]
            fn bytes<'v>(input: &'v #inner::Input<'_>) -> ::core::option::Option<&'v [u8]> {
                #inner::bytes(input)
            }

            #[inline]
            fn write(
                input: #inner::Input<'_>,
                encoder: &mut __xt::Encoder<'_, __xt::flat::Writer<'_>>,
            ) -> ::core::result::Result<(), __xt::flat::FlatError> {
                #inner::write(input, encoder)
            }
        }
    }
}
