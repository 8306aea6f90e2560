//! `#[derive(DdsType)]`: DDS types written in Rust.
//!
//! The macro is documented where it is used: in the crate `peregrine-xtypes`, which re-exports it.

#![forbid(unsafe_code)]

mod attributes;
mod enumeration;
mod flat;
mod flat_union;
mod newtype;
mod structure;
mod syntax;
mod union;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataStruct, DeriveInput, Error, Fields, Path, Result, parse_quote};

use attributes::Container;

/// Makes a structure, enumeration, union, bitmask or alias a DDS type. See the crate `peregrine-xtypes`.
#[proc_macro_derive(DdsType, attributes(dds, key))]
pub fn derive_dds_type(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    run(input, &parse_quote!(::peregrine_xtypes))
}

/// Makes a structure, enumeration, union, bitmask or alias a DDS type. The module `peregrine::xtypes` documents the
/// types, their attributes and plain types.
///
/// ```ignore
/// use peregrine::DdsType;
///
/// #[derive(Clone, DdsType)]
/// #[dds(name = "fleet::Position", extensibility = "final")]
/// #[repr(C)]
/// struct Position {
///     #[dds(key)]
///     robot: u32,
///     x: f32,
///     y: f32,
/// }
/// ```
///
/// | attribute | on | meaning |
/// |---|---|---|
/// | `#[dds(key)]` | a member | the member is part of the key that identifies instances |
/// | `#[dds(name = "scope::Name")]` | a type | the IDL name; by default the Rust name |
/// | `#[dds(extensibility = "final")]` | a type | `"final"`, `"appendable"` (the default) or `"mutable"` |
/// | `#[dds(id = N)]` | a member | the member id |
/// | `#[dds(flat)]` | a type | samples can be built and read in their serialized form |
/// | `#[repr(C)]` | a type | the memory layout is fixed: with `"final"` and members that are numbers, samples can be lent |
#[proc_macro_derive(PeregrineDdsType, attributes(dds, key))]
pub fn derive_dds_type_in_peregrine(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    run(input, &parse_quote!(::peregrine::xtypes))
}

fn run(input: proc_macro::TokenStream, runtime: &Path) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    let (code, types) =
        expand(&input, runtime).unwrap_or_else(|error| (error.into_compile_error(), TokenStream::new()));
    quote! {
        #types
        const _: () = {
            use #runtime as __xt;
            #code
        };
    }
    .into()
}

/// The implementations, and new types that are placed next to the type from which they are derived.
fn expand(input: &DeriveInput, runtime: &Path) -> Result<(TokenStream, TokenStream)> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a DDS type cannot be generic: IDL has no generic types"));
    }
    let container = Container::parse(input, runtime)?;
    match &input.data {
        Data::Struct(data) => expand_struct(&container, data),
        Data::Enum(data) => {
            let unit = data.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit));
            if unit && container.discriminator.is_none() {
                Ok((enumeration::expand(&container, data)?, TokenStream::new()))
            } else {
                union::expand(&container, data)
            }
        }
        Data::Union(data) => {
            Err(Error::new(data.union_token.span, "a DDS union is written as a Rust `enum` whose variants hold data"))
        }
    }
}

fn expand_struct(container: &Container, data: &DataStruct) -> Result<(TokenStream, TokenStream)> {
    match &data.fields {
        Fields::Named(fields) => structure::expand(container, fields.named.iter()),
        Fields::Unit => structure::expand(container, [].into_iter()),
        Fields::Unnamed(fields) => match (fields.unnamed.first(), fields.unnamed.len()) {
            (Some(field), 1) => Ok((newtype::expand(container, field)?, TokenStream::new())),
            _ => Err(Error::new_spanned(
                fields,
                "the members of a DDS structure have names; only an alias or a bitmask is a tuple structure, of one field",
            )),
        },
    }
}
