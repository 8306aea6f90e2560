use peregrine_xtypes::DdsType;

#[derive(Clone, DdsType)]
#[dds(extensibility = "extensible")]
struct BadExtensibility {
    a: u8,
}

#[derive(Clone, DdsType)]
#[dds(topic)]
struct UnknownTypeAttribute {
    a: u8,
}

#[derive(Clone, DdsType)]
struct UnknownMemberAttribute {
    #[dds(primary_key)]
    a: u8,
}

#[derive(Clone, DdsType)]
#[dds(bit_bound = 8)]
struct BitBoundOnStructure {
    a: u8,
}

#[derive(Clone, DdsType)]
struct OptionalWithoutOption {
    #[dds(optional)]
    a: u8,
}

#[derive(Clone, DdsType)]
struct OptionalKey {
    #[dds(key)]
    a: Option<u8>,
}

#[derive(Clone, DdsType)]
struct SameId {
    #[dds(id = 1)]
    a: u8,
    #[dds(id = 1)]
    b: u8,
}

#[derive(Clone, DdsType)]
struct GreatId {
    #[dds(id = 0x10000000)]
    a: u8,
}

fn main() {}
