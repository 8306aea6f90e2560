//! A parameter list may consist of any bytes: nothing panics, and a parsed list can be written and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterList, ParameterListWriter, ValueReader};

fuzz_target!(|octets: &[u8]| {
    for endianness in [Endianness::Big, Endianness::Little] {
        if let Ok(list) = ParameterList::parse_to_end(octets, endianness) {
            assert!(list.iter().count() <= octets.len() / 4);
        }
        let Ok((list, rest)) = ParameterList::parse(octets, endianness) else { continue };
        assert_eq!(list.as_bytes().len() + rest.len(), octets.len());
        let _ = list.to_string();
        check_rewrite(&list, endianness);
        for (id, value) in list {
            assert!(list.find(id.without_must_understand()).is_some());
            check_values(ValueReader::new(value, endianness));
        }
    }
});

/// Ids that are part of the encoding cannot be written as parameters.
fn check_rewrite(list: &ParameterList<'_>, endianness: Endianness) {
    let plain = || list.iter().filter(|(id, _)| id.without_must_understand() != ParameterId::EXTENDED && !is_end(*id));
    let mut octets = Vec::new();
    let mut writer = ParameterListWriter::new(&mut octets, endianness);
    for (id, value) in plain() {
        writer.parameter(id, |out| out.octets(value));
    }
    writer.finish();
    let (again, rest) = ParameterList::parse(&octets, endianness).expect("a written list is well formed");
    assert!(rest.is_empty());
    let mut read = again.iter();
    for (id, value) in plain() {
        let (id_again, value_again) = read.next().expect("as many parameters as were written");
        assert_eq!(id_again, id);
        assert_eq!(&value_again[..value.len()], value);
        assert_eq!(value_again.len(), value.len().next_multiple_of(4));
    }
    assert!(read.next().is_none());
}

/// The extended form can carry any id.
fn is_end(id: ParameterId) -> bool {
    let base = id.without_must_understand();
    id == ParameterId::SENTINEL || [ParameterId::LIST_END, ParameterId::PAD, ParameterId::IGNORE].contains(&base)
}

fn check_values(value: ValueReader<'_>) {
    let start = || value;
    let _ = start().string(256);
    let _ = start().octet_sequence();
    let _ = start().count(4).map(|count| assert!(count * 4 <= value.remaining()));
    let _ = start().duration();
    let _ = start().locator().map(|locator| locator.to_socket_addr());
    let _ = start().guid();
    let mut mixed = start();
    while mixed.u8().and_then(|_| mixed.i16()).and_then(|_| mixed.sequence_number()).is_ok() {}
}
