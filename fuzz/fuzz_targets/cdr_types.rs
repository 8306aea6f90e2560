//! The types that the CDR fuzz targets decode: every kind of type, in every extensibility.

use std::collections::BTreeMap;

use peregrine_xtypes::{BoundedMap, BoundedString, BoundedVec, Char8, DdsType, WString, Wchar};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, DdsType)]
#[dds(bit_bound = 8)]
pub enum Level {
    Low = -1,
    #[dds(default_literal)]
    Middle,
    High = 100,
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(bitmask)]
pub struct Flags(u16);

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
pub struct Plain {
    #[dds(key)]
    pub id: u64,
    pub values: [u32; 6],
}

macro_rules! types {
    ($module:ident, $extensibility:literal) => {
        pub mod $module {
            use super::*;

            #[derive(Clone, Debug, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub enum Choice {
                #[dds(case = 1, 7)]
                Number(u16),
                #[dds(case = -2)]
                Texts(Vec<String>),
                #[dds(case = 3)]
                Nothing,
                #[dds(default)]
                Other(Box<Tree>),
            }

            #[derive(Clone, Debug, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub struct Tree {
                #[dds(key, id = 30)]
                id: u16,
                #[dds(key, id = 10)]
                name: BoundedString<8>,
                children: Vec<Tree>,
                choice: Option<Choice>,
            }

            #[derive(Clone, Debug, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub struct Base {
                #[dds(key)]
                base_id: u8,
                base_value: Option<f32>,
            }

            #[derive(Clone, Debug, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub struct Everything {
                #[dds(base)]
                base: Base,
                #[dds(key)]
                tree: Tree,
                #[dds(key)]
                levels: BoundedVec<Level, 3>,
                long: i64,
                flag: bool,
                char8: Char8,
                wchar: Wchar,
                wide: WString,
                plain: Vec<Plain>,
                two: [Plain; 2],
                matrix: [[i16; 3]; 2],
                flags: Vec<Flags>,
                names: BoundedMap<String, Level, 4>,
                map: BTreeMap<u8, f64>,
                #[dds(must_understand)]
                last: u8,
            }
        }
    };
}

types!(finals, "final");
types!(appendables, "appendable");
types!(mutables, "mutable");

/// Calls a generic function for each type whose payloads the fuzz targets read.
#[macro_export]
macro_rules! for_each_type {
    ($check:ident, $data:expr) => {
        $check::<cdr_types::Plain>($data);
        $check::<cdr_types::finals::Everything>($data);
        $check::<cdr_types::finals::Tree>($data);
        $check::<cdr_types::appendables::Everything>($data);
        $check::<cdr_types::appendables::Choice>($data);
        $check::<cdr_types::mutables::Everything>($data);
        $check::<cdr_types::mutables::Choice>($data);
    };
}
