//! The text that states why a type is not plain.

use peregrine_xtypes::{DdsType, Representation, plain};

use Representation::{Xcdr1, Xcdr2};

fn text<T: DdsType>(representation: Representation) -> String {
    let obstacle = plain::obstacle::<T>(representation).map(|obstacle| obstacle.to_string());
    assert_eq!(obstacle.is_none(), plain::payload_len::<T>(representation).is_some(), "one is the reason of the other");
    obstacle.unwrap_or_default()
}

macro_rules! structure {
    ($(#[$attribute:meta])* $name:ident { $($member:ident: $type:ty),* $(,)? }) => {
        #[derive(Clone, DdsType)]
        $(#[$attribute])*
        #[allow(dead_code, reason = "only the type is looked at")]
        struct $name { $($member: $type),* }
    };
}

structure!(
    #[dds(extensibility = "final")]
    #[repr(C)]
    Plain { a: u32, b: [u16; 2] }
);
structure!(
    #[dds(extensibility = "final")]
    Reordered { a: u32, b: u16 }
);
structure!(
    #[repr(C)]
    Appendable { a: u32 }
);
structure!(Both { a: u32 });
structure!(
    #[dds(extensibility = "mutable")]
    #[repr(C)]
    Mutable { a: u32 }
);
structure!(
    #[dds(extensibility = "final")]
    #[repr(C)]
    Inner { id: u32, flag: bool, fill: [u8; 3] }
);
structure!(
    #[dds(extensibility = "final")]
    #[repr(C)]
    Outer { inner: Inner }
);
structure!(Texts { a: u32, text: String });
structure!(#[dds(extensibility = "final")] #[repr(C)] Optional { maybe: Option<u32> });
structure!(
    #[dds(extensibility = "final")]
    #[repr(C)]
    Padded { a: u8, b: u32 }
);
structure!(
    #[dds(extensibility = "final")]
    #[repr(C)]
    Tail { a: u32, b: u8 }
);
structure!(
    #[dds(extensibility = "final")]
    #[repr(C)]
    Structures { points: [Plain; 2] }
);
structure!(
    #[dds(extensibility = "final")]
    #[repr(C)]
    Empty {}
);

#[derive(Clone, DdsType)]
#[allow(dead_code, reason = "only the type is looked at")]
struct Meters(f64);

#[test]
fn plain_type_has_no_obstacle() {
    for representation in [Xcdr1, Xcdr2] {
        assert_eq!(plain::obstacle::<Plain>(representation), None);
        assert_eq!(plain::obstacle::<[u64; 3]>(representation), None);
    }
    assert_eq!(plain::obstacle::<Appendable>(Xcdr1), None);
    assert_eq!(plain::obstacle::<Structures>(Xcdr1), None);
}

#[test]
fn obstacle_of_structure_names_the_missing_attribute() {
    assert_eq!(
        text::<Reordered>(Xcdr1),
        "type `Reordered` has a memory layout that the compiler chooses: add #[repr(C)]"
    );
    assert_eq!(
        text::<Appendable>(Xcdr2),
        "type `Appendable` is appendable, and XCDR2 precedes it by its length: add #[dds(extensibility = \"final\")], or \
         offer XCDR1"
    );
    assert_eq!(
        text::<Both>(Xcdr2),
        "type `Both` is appendable, and has a memory layout that the compiler chooses: add \
         #[dds(extensibility = \"final\")] and #[repr(C)]"
    );
    assert_eq!(text::<Both>(Xcdr1), "type `Both` has a memory layout that the compiler chooses: add #[repr(C)]");
    for representation in [Xcdr1, Xcdr2] {
        assert_eq!(text::<Mutable>(representation), "type `Mutable` is mutable: use #[dds(extensibility = \"final\")]");
        assert_eq!(text::<Empty>(representation), "type `Empty` has no members");
        assert_eq!(
            text::<Meters>(representation),
            "type `Meters` has a memory layout that the compiler chooses: add #[repr(transparent)]"
        );
    }
}

#[test]
fn obstacle_in_member_names_the_member() {
    assert_eq!(
        text::<Outer>(Xcdr1),
        "member `inner.flag` of type `boolean` has bytes that are no value, only 0 and 1 are: make it a `u8`"
    );
    assert_eq!(
        text::<Texts>(Xcdr1),
        "member `text` of type `string` is not plain: a plain type is a number, an array of numbers or a structure of \
         plain members; replace it"
    );
    assert_eq!(
        text::<Optional>(Xcdr2),
        "member `maybe` of type `uint32` is optional, hence of no fixed size: make it mandatory"
    );
    assert!(text::<Structures>(Xcdr2).starts_with("member `points` of type `Plain` is an array of elements that"));
}

#[test]
fn obstacle_of_padding_names_the_place_and_size() {
    let text_of = text::<Padded>(Xcdr2);
    assert!(text_of.starts_with("type `Padded` has 3 bytes of padding in front of member `b`: order"), "{text_of}");
    assert_eq!(
        text::<Tail>(Xcdr1),
        "type `Tail` has 3 bytes of padding behind its last member: fill them with a member of type `[u8; 3]`"
    );
}
