//! The types of `interop/types.idl`: one layout, three contracts.

use peregrine::DdsType;

/// A prime, so that a displacement by a power of two or by a fragment is detected.
const PAYLOAD_PERIOD: usize = 251;

/// The operations of the peer on a sample of any of the types.
pub(crate) trait Content: DdsType + Send + Sync + 'static {
    fn new(key: u32, seq: u32, stamp_ns: u64, data: Vec<u8>) -> Self;
    fn instance_key(&self) -> u32;
    fn seq(&self) -> u32;
    fn data(&self) -> &[u8];
}

macro_rules! content {
    ($($type:ident)*) => {$(
        impl Content for $type {
            fn new(key: u32, seq: u32, stamp_ns: u64, data: Vec<u8>) -> Self {
                Self { key, seq, stamp: stamp_ns, data }
            }

            fn instance_key(&self) -> u32 {
                self.key
            }

            fn seq(&self) -> u32 {
                self.seq
            }

            fn data(&self) -> &[u8] {
                &self.data
            }
        }
    )*};
}
content! { Sample KeyedSample AppendableSample }

#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
pub(crate) struct Sample {
    key: u32,
    seq: u32,
    stamp: u64,
    data: Vec<u8>,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
pub(crate) struct KeyedSample {
    #[dds(key)]
    key: u32,
    seq: u32,
    stamp: u64,
    data: Vec<u8>,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "appendable")]
pub(crate) struct AppendableSample {
    #[dds(key)]
    key: u32,
    seq: u32,
    stamp: u64,
    data: Vec<u8>,
}

/// The `data` of a sample with this `seq`: byte `i` is `(seq + i) mod 251`.
pub(crate) fn payload(seq: u32, size_bytes: usize) -> Vec<u8> {
    octets(seq).take(size_bytes).collect()
}

/// Whether each byte is the one that its position and `seq` demand.
pub(crate) fn is_intact(seq: u32, data: &[u8]) -> bool {
    octets(seq).zip(data).all(|(wanted, found)| wanted == *found)
}

fn octets(seq: u32) -> impl Iterator<Item = u8> {
    let start = seq as usize % PAYLOAD_PERIOD;
    (0..PAYLOAD_PERIOD as u8).cycle().skip(start)
}

#[cfg(test)]
mod tests {
    use super::{is_intact, payload};

    #[test]
    fn changed_payload_is_not_intact() {
        let data = payload(250, 300);
        assert_eq!(data[..3], [250, 0, 1]);
        assert!(is_intact(250, &data));
        assert!(!is_intact(251, &data));
        let mut damaged = data;
        damaged[299] ^= 1;
        assert!(!is_intact(250, &damaged));
    }
}
