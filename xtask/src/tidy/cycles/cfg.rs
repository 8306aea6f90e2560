//! Items that exist in test builds only.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Whether the attributes exclude an item from every build except that of the tests: `#[test]` or such a `#[cfg(...)]`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.parse_args::<Meta>().is_ok_and(|condition| without_tests(&condition) == Some(false)))
    })
}

/// The value of a condition in a build without tests; `None` if it depends on other conditions.
fn without_tests(condition: &Meta) -> Option<bool> {
    match condition {
        Meta::Path(path) if path.is_ident("test") => Some(false),
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
            let values: Vec<Option<bool>> = parts.iter().map(without_tests).collect();
            if list.path.is_ident("not") {
                return values.first()?.map(|value| !value);
            }
            if list.path.is_ident("all") {
                return values.contains(&Some(false)).then_some(false);
            }
            let is_never = list.path.is_ident("any") && values.iter().all(|value| *value == Some(false));
            is_never.then_some(false)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_for_tests;

    #[test]
    fn conditions_that_need_a_test_build_are_recognised() {
        for (text, expected) in [
            ("#[cfg(test)]", true),
            ("#[test]", true),
            ("#[cfg(all(test, loom))]", true),
            ("#[cfg(any(all(test, unix), test))]", true),
            ("#[cfg(any(test, feature = \"lab\"))]", false),
            ("#[cfg(not(test))]", false),
            ("#[cfg(not(not(test)))]", true),
            ("#[cfg(unix)]", false),
            ("#[inline]", false),
        ] {
            let item: syn::ItemStruct = syn::parse_str(&format!("{text} struct S;")).unwrap();
            assert_eq!(is_for_tests(&item.attrs), expected, "{text}");
        }
    }
}
