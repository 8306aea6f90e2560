//! A macro for `Debug`.

/// Implements `Debug` for any type parameters; a derived implementation would require `Debug` of them.
macro_rules! debug_without_bounds {
    ($([$($parameters:tt)*] $type:ident<$($arguments:tt),*> { $($field:ident),* },)*) => {$(
        impl<$($parameters)*> core::fmt::Debug for $type<$($arguments),*> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    )*};
}
