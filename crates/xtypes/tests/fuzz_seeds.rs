//! The committed seeds of the CDR fuzz targets pass the first check: each of them is a payload of one of the types
//! there.

use std::path::Path;

use peregrine_xtypes::{DdsType, decode};

#[allow(dead_code, unreachable_pub, reason = "written for the fuzz targets, and only decoded here")]
#[path = "../../../fuzz/fuzz_targets/cdr_types.rs"]
mod cdr_types;

fn check<T: DdsType>((data, types): (&[u8], &mut usize)) {
    *types += usize::from(decode::<T>(data).is_ok());
}

#[test]
fn fuzz_seed_decodes_as_a_type() {
    for target in ["cdr_fixpoint", "cdr_key_hash", "cdr_serialized_key"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut seeds = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let data = std::fs::read(&path).unwrap();
            let mut types = 0;
            for_each_type!(check, (&data, &mut types));
            assert!(types > 0, "{} is a payload of no type", path.display());
            seeds += 1;
        }
        assert!(seeds > 0, "{} is empty", folder.display());
    }
}
