//! The attribute `#[dds(...)]` on types, members and variants.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, DeriveInput, Error, Expr, Field, Ident, LitInt, LitStr, Path, Result, Token, Type, Variant, Visibility,
};

use crate::syntax;

/// How a type may evolve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extensibility {
    Final,
    Appendable,
    Mutable,
}

impl Extensibility {
    pub(crate) fn tokens(self) -> TokenStream {
        match self {
            Self::Final => quote!(__xt::Extensibility::Final),
            Self::Appendable => quote!(__xt::Extensibility::Appendable),
            Self::Mutable => quote!(__xt::Extensibility::Mutable),
        }
    }

    /// The length code of a type of this extensibility as a member of a mutable structure.
    pub(crate) fn length_code(self) -> TokenStream {
        match self {
            Self::Final => quote!(__xt::LengthCode::Separate),
            Self::Appendable | Self::Mutable => quote!(__xt::LengthCode::Leading),
        }
    }
}

/// The attributes of a type.
pub(crate) struct Container {
    /// The crate that the code refers to.
    pub(crate) runtime: Path,
    pub(crate) vis: Visibility,
    pub(crate) ident: Ident,
    pub(crate) name: String,
    pub(crate) extensibility: Option<(Extensibility, Span)>,
    pub(crate) hash_ids: bool,
    pub(crate) nested: bool,
    pub(crate) bit_bound: Option<(u32, Span)>,
    pub(crate) bitmask: Option<Span>,
    pub(crate) discriminator: Option<Type>,
    pub(crate) key: Option<Span>,
    pub(crate) flat: Option<Span>,
    /// Whether the layout in memory is that of C, or of the only field.
    pub(crate) fixed_layout: bool,
}

impl Container {
    pub(crate) fn parse(input: &DeriveInput, runtime: &Path) -> Result<Self> {
        let mut container = Self {
            runtime: runtime.clone(),
            vis: input.vis.clone(),
            ident: input.ident.clone(),
            name: syntax::idl_name(&input.ident),
            extensibility: None,
            hash_ids: false,
            nested: false,
            bit_bound: None,
            bitmask: None,
            discriminator: None,
            key: None,
            flat: None,
            fixed_layout: has_fixed_layout(&input.attrs)?,
        };
        for_each(&input.attrs, |meta| container.parse_one(&meta))?;
        Ok(container)
    }

    fn parse_one(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let span = meta.path.span();
        match name_of(meta).as_str() {
            "name" => self.name = meta.value()?.parse::<LitStr>()?.value(),
            "extensibility" => self.extensibility = Some((parse_extensibility(meta)?, span)),
            "autoid" => {
                let kind: LitStr = meta.value()?.parse()?;
                self.hash_ids = match kind.value().as_str() {
                    "hash" => true,
                    "sequential" => false,
                    _ => return Err(Error::new(kind.span(), "expected \"sequential\" or \"hash\"")),
                };
            }
            "nested" => self.nested = true,
            "bit_bound" => self.bit_bound = Some((meta.value()?.parse::<LitInt>()?.base10_parse()?, span)),
            "bitmask" => self.bitmask = Some(span),
            "discriminator" => self.discriminator = Some(meta.value()?.parse::<LitStr>()?.parse()?),
            "key" => self.key = Some(span),
            "flat" => self.flat = Some(span),
            _ => {
                return Err(meta.error(
                    "unknown attribute of a type: expected name, extensibility, autoid, nested, bit_bound, bitmask, \
                     discriminator, key or flat",
                ));
            }
        }
        Ok(())
    }

    /// The extensibility: appendable unless an attribute sets another (XTypes 1.3 §7.3.1.2.1.8).
    pub(crate) fn extensibility(&self) -> Extensibility {
        self.extensibility.map_or(Extensibility::Appendable, |(extensibility, _)| extensibility)
    }

    /// Refuses attributes that are not allowed on this kind of type.
    pub(crate) fn forbid(&self, kind: &str, attributes: &[(&str, Option<Span>)]) -> Result<()> {
        match attributes.iter().find_map(|(name, span)| span.map(|span| (name, span))) {
            Some((name, span)) => Err(Error::new(span, format!("`{name}` is not allowed on {kind}"))),
            None => Ok(()),
        }
    }
}

fn parse_extensibility(meta: &ParseNestedMeta<'_>) -> Result<Extensibility> {
    let value: LitStr = meta.value()?.parse()?;
    match value.value().as_str() {
        "final" => Ok(Extensibility::Final),
        "appendable" => Ok(Extensibility::Appendable),
        "mutable" => Ok(Extensibility::Mutable),
        _ => Err(Error::new(value.span(), "expected \"final\", \"appendable\" or \"mutable\"")),
    }
}

fn has_fixed_layout(attributes: &[Attribute]) -> Result<bool> {
    let mut fixed = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let parts = attribute.parse_args_with(Punctuated::<syn::Meta, Token![,]>::parse_terminated)?;
        fixed |= parts.iter().any(|part| part.path().is_ident("C") || part.path().is_ident("transparent"));
    }
    Ok(fixed)
}

/// The attributes of a member of a structure.
#[derive(Default)]
pub(crate) struct MemberAttributes {
    pub(crate) key: Option<Span>,
    pub(crate) id: Option<(u32, Span)>,
    pub(crate) optional: Option<Span>,
    pub(crate) must_understand: bool,
    pub(crate) base: Option<Span>,
}

impl MemberAttributes {
    pub(crate) fn parse(field: &Field, name: &str, hash_ids: bool) -> Result<Self> {
        let mut member = Self::default();
        for_each(&field.attrs, |meta| member.parse_one(&meta, name))?;
        if hash_ids && member.id.is_none() {
            member.id = Some((hash_id(name), field.span()));
        }
        Ok(member)
    }

    fn parse_one(&mut self, meta: &ParseNestedMeta<'_>, name: &str) -> Result<()> {
        let span = meta.path.span();
        match name_of(meta).as_str() {
            "key" => self.key = Some(span),
            "id" => self.id = Some(parse_id(meta)?),
            "hashid" => {
                let hashed =
                    if meta.input.peek(Token![=]) { meta.value()?.parse::<LitStr>()?.value() } else { name.to_owned() };
                self.id = Some((hash_id(&hashed), span));
            }
            "optional" => self.optional = Some(span),
            "must_understand" => self.must_understand = true,
            "base" => self.base = Some(span),
            _ => {
                return Err(meta.error(
                    "unknown attribute of a member: expected key, id, hashid, optional, must_understand or base",
                ));
            }
        }
        Ok(())
    }
}

/// The attributes of a variant, of an enumeration or of a union.
#[derive(Default)]
pub(crate) struct VariantAttributes {
    pub(crate) default_literal: Option<Span>,
    pub(crate) cases: Vec<Expr>,
    pub(crate) default: Option<Span>,
    pub(crate) id: Option<(u32, Span)>,
}

impl VariantAttributes {
    pub(crate) fn parse(variant: &Variant) -> Result<Self> {
        let mut attributes = Self::default();
        for_each(&variant.attrs, |meta| attributes.parse_one(&meta))?;
        Ok(attributes)
    }

    fn parse_one(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let span = meta.path.span();
        match name_of(meta).as_str() {
            "default_literal" => self.default_literal = Some(span),
            "default" => self.default = Some(span),
            "id" => self.id = Some(parse_id(meta)?),
            "case" => {
                let input = meta.value()?;
                self.cases.push(input.parse()?);
                // A label list continues until the next attribute.
                while input.peek(Token![,]) && !is_attribute(&input.fork()) {
                    input.parse::<Token![,]>()?;
                    if input.is_empty() {
                        break;
                    }
                    self.cases.push(input.parse()?);
                }
            }
            _ => {
                return Err(meta.error("unknown attribute of a variant: expected case, default, id or default_literal"));
            }
        }
        Ok(())
    }
}

/// Whether `, name` or `, name = ...` of a known attribute follows.
fn is_attribute(input: &syn::parse::ParseBuffer<'_>) -> bool {
    input.parse::<Token![,]>().is_ok()
        && input
            .call(Ident::parse_any)
            .is_ok_and(|ident| ["default", "id", "case", "default_literal"].iter().any(|name| ident == name))
        && !input.peek(Token![::])
}

fn parse_id(meta: &ParseNestedMeta<'_>) -> Result<(u32, Span)> {
    let id: LitInt = meta.value()?.parse()?;
    match id.base10_parse::<u32>()? {
        value @ 0..=0x0fff_ffff => Ok((value, id.span())),
        _ => Err(Error::new(id.span(), "a member id has 28 bits: it is at most 0x0fffffff")),
    }
}

/// The member id of a name: the lower 28 bits of the start of its MD5 digest (XTypes 1.3 §7.3.1.2.1.1).
fn hash_id(name: &str) -> u32 {
    use md5::{Digest, Md5};
    let digest = Md5::digest(name.as_bytes());
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]) & 0x0fff_ffff
}

fn name_of(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(Ident::to_string).unwrap_or_default()
}

fn for_each(attributes: &[Attribute], mut parse: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    // `key` is registered with the compiler for this message only: without it, the compiler would only report an
    // unknown attribute.
    if let Some(key) = attributes.iter().find(|attribute| attribute.path().is_ident("key")) {
        return Err(Error::new_spanned(key, "attributes of a DDS type are written in `dds`: #[dds(key)]"));
    }
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("dds"))
        .try_for_each(|attribute| attribute.parse_nested_meta(&mut parse))
}

#[cfg(test)]
mod tests {
    use super::hash_id;

    #[test]
    fn hashed_id_equals_known_id() {
        for (name, id) in [
            ("color", 0x0fa5_dd70),
            ("shapesize", 0x0477_90da),
            ("getDependencies", 0x05aa_fb31),
            ("type_ids", 0x0c53_6065),
            ("continuation_point", 0x0508_e3d2),
        ] {
            assert_eq!(hash_id(name), id, "{name}");
        }
    }
}
