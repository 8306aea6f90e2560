//! Building a flat sample in a buffer, checking it, reading it and changing it allocate no memory, for all members.

use peregrine_xtypes::{BoundedVec, DdsType, flat};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(flat)]
enum Mode {
    Auto,
    Manual,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Mark {
    label: String,
    at: [u16; 2],
    weight: Option<f64>,
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "appendable", flat)]
struct Image {
    #[dds(key)]
    camera: String,
    mode: Mode,
    marks: Vec<Mark>,
    gains: BoundedVec<f32, 4>,
    note: Option<String>,
    pixels: Vec<u8>,
}

const PIXELS: usize = 1_000_000;

fn build(slot: &mut [u8]) -> Result<usize, flat::FlatError> {
    let image = flat::builder::<Image>(slot)?.camera("front")?.mode(Mode::Manual)?;
    let image = image.marks_with(|mut marks| {
        for (label, x) in [("left", 1), ("right", 2)] {
            marks.push_with(|mark| mark.weight(Some(0.5))?.label(label)?.at(&[x, 3])?.finish())?;
        }
        marks.finish()
    })?;
    let image = image.gains(&[1.0, 2.0])?.note(None)?;
    let image = image.pixels_with(|mut pixels| {
        pixels.fill(PIXELS, |bytes| bytes.fill(9))?;
        pixels.finish()
    })?;
    Ok(image.finish()?.len())
}

/// The sum of all values of the sample, by every accessor.
fn read(payload: &[u8]) -> f64 {
    let image = flat::view::<Image>(payload).unwrap();
    assert_eq!((image.camera(), image.mode(), image.note()), ("front", Mode::Manual, None));
    let marks: f64 =
        image.marks().iter().map(|mark| f64::from(mark.at().get(0).unwrap()) + mark.weight().unwrap()).sum();
    let last = image.marks().get(1).unwrap().label().len();
    let pixels = image.pixels().as_slice().unwrap();
    marks + last as f64 + image.gains().iter().map(f64::from).sum::<f64>() + pixels.len() as f64 + f64::from(pixels[7])
}

fn change(payload: &mut [u8]) {
    let mut image = flat::view_mut::<Image>(payload).unwrap();
    image.pixels_mut().unwrap().as_mut_slice().unwrap()[7] = 11;
    image.mode_mut().unwrap().set(Mode::Auto);
    image.mode_mut().unwrap().set(Mode::Manual);
    image.marks_mut().unwrap().get_mut(0).unwrap().weight_mut().unwrap().set(1.5);
}

#[test]
fn flat_sample_in_a_buffer_allocates_nothing() {
    let mut slot = vec![0; PIXELS + 256];
    let profiler = dhat::Profiler::builder().testing().build();
    let before = dhat::HeapStats::get().total_blocks;
    let len = build(&mut slot).unwrap();
    let first = read(&slot[..len]);
    change(&mut slot[..len]);
    let second = read(&slot[..len]);
    let after = dhat::HeapStats::get().total_blocks;
    drop(profiler);
    assert_eq!(after, before, "blocks");
    assert_eq!(second - first, 1.0 + 2.0);
    assert_eq!(first, (1.5 + 2.5) + 5.0 + 3.0 + PIXELS as f64 + 9.0);
}
