//! Messages of the derive macro about mistakes.

#[test]
fn misuse_of_the_derive_macro_is_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
