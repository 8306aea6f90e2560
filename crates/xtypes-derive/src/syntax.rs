//! Helpers that all kinds of types share.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, Ident, Result, Type};

/// Refuses Rust types without a DDS type if the compiler's own message would not state the remedy.
pub(crate) fn check_type(ty: &Type) -> Result<()> {
    let Some(name) = last_segment(ty) else { return Ok(()) };
    let message = match name.to_string().as_str() {
        "f128" | "Float128" | "LongDouble" => {
            "float128 (IDL `long double`) is not supported: Rust has no such type; use `[u8; 16]` to carry its bytes"
        }
        "char" => "a Rust `char` has no DDS type: use `Char8`, `Wchar` or `String`",
        "usize" | "u128" => "this integer has no DDS type: use `u8`, `u16`, `u32` or `u64`",
        "isize" | "i128" => "this integer has no DDS type: use `i8`, `i16`, `i32` or `i64`",
        "HashMap" => "a `HashMap` has no stable order to encode: use `BTreeMap` or `BoundedMap`",
        _ => return Ok(()),
    };
    Err(Error::new_spanned(ty, message))
}

pub(crate) fn last_segment(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// The location in the source at which the compiler reports errors of generated code that depends on `ty`. Lints still
/// treat the code as generated.
pub(crate) fn span_of(ty: &Type) -> Span {
    Span::call_site().located_at(ty.span())
}

/// The IDL name of a Rust identifier.
pub(crate) fn idl_name(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}

/// A tuple of any number of elements. Tuples of more than 12 implement no traits, so long ones are nested.
pub(crate) fn tuple(elements: &[TokenStream]) -> TokenStream {
    const MOST: usize = 12;
    if elements.len() <= MOST {
        return quote! { ( #(#elements,)* ) };
    }
    let (head, tail) = elements.split_at(MOST - 1);
    let tail = tuple(tail);
    quote! { ( #(#head,)* #tail, ) }
}

/// An error at the container's name.
pub(crate) fn error_at(span: Span, message: &str) -> Error {
    Error::new(span, message)
}
