//! The cost of a sample in shared memory, compared with the floor of every such transport: words that two threads
//! change in turns, polled or awaited with a futex.
//!
//! `cargo run --release -p peregrine-transport --example shm_floor [ROUNDS]`
//!
//! Two threads on two CPUs, each with its own mappings, like two processes. All rows of a round are measured in turns;
//! the ratio is to the floor of the same kind. Slow results are not errors.

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("shared memory is for Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use peregrine_transport::clock::MonotonicNs;
    use peregrine_transport::shm::{
        Listener, Metadata, Overflow, Reader, ReaderConfig, Trust, Wake, Writer, WriterConfig, WriterKey,
    };
    use peregrine_transport::thread as os_thread;
    use rustix::mm::{MapFlags, ProtFlags};
    use rustix::thread::futex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    const ROUND_TRIPS: usize = 20_000;
    const WARM_UP: usize = 2_000;
    const HAND_OVERS: u64 = 2_000_000;
    /// An answer that takes longer than this is an error.
    const PATIENCE: Duration = Duration::from_secs(20);
    const SIZES: [usize; 5] = [32, 1024, 63_000, 2 << 20, 52_428_800];

    /// One end of a pair that passes a message back and forth.
    trait End: Send {
        fn send(&mut self);
        fn receive(&mut self);
    }

    /// Words in shared memory, each in a separate cache line.
    #[derive(Clone, Copy)]
    struct Words {
        near: &'static AtomicU32,
        far: &'static AtomicU32,
    }

    impl Words {
        /// The mapping remains until the process ends.
        fn new() -> Self {
            let (len, protection) = (4096, ProtFlags::READ | ProtFlags::WRITE);
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
            let start = unsafe {
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::SHARED).expect("memory")
            };
            // SAFETY: within the page, which is never unmapped; zeros are a value of an atomic.
            unsafe { Self { near: &*start.cast(), far: &*start.byte_add(1024).cast() } }
        }
    }

    struct Bare {
        own: &'static AtomicU32,
        other: &'static AtomicU32,
        count: u32,
        sleeps: bool,
    }

    impl End for Bare {
        fn send(&mut self) {
            self.own.fetch_add(1, Ordering::Release);
            if self.sleeps {
                futex::wake(self.own, futex::Flags::empty(), 1).expect("mapped");
            }
        }

        fn receive(&mut self) {
            while self.other.load(Ordering::Acquire) == self.count {
                if self.sleeps {
                    // A failure is a value that has changed already.
                    let _ = futex::wait(self.other, futex::Flags::empty(), self.count, None);
                } else {
                    std::hint::spin_loop();
                }
            }
            self.count += 1;
        }
    }

    struct Ours {
        writer: Writer,
        reader: Reader,
        bytes: usize,
        spin: Duration,
    }

    impl End for Ours {
        fn send(&mut self) {
            let mut slot = self.writer.loan(self.bytes).expect("a slot");
            // Only the first and the last byte are written.
            slot[0] = slot[0].wrapping_add(1);
            let last = slot.len() - 1;
            slot[last] = 1;
            self.writer.publish(slot, Metadata::default()).expect("room");
        }

        fn receive(&mut self) {
            loop {
                if let Some(sample) = self.reader.take().expect("few are held") {
                    assert_eq!(sample[self.bytes - 1], 1);
                    std::hint::black_box(sample[0]);
                    return;
                }
                let wake = self.reader.wait(self.spin, Some(MonotonicNs::now().after(PATIENCE)));
                assert_ne!(wake, Wake::TimedOut);
            }
        }
    }

    /// Two ends connected in both directions; the second is for the other thread.
    fn ours(bytes: usize, spin: Duration) -> (Ours, Ours) {
        let mut ends = [(); 2].map(|()| {
            let writer = Writer::new(WriterConfig::default()).expect("the defaults are good");
            let reader = Reader::new(ReaderConfig::default()).expect("Linux 5.16");
            Ours { writer, reader, bytes, spin }
        });
        let [near, far] = &mut ends;
        join(&mut near.writer, &mut far.reader);
        join(&mut far.writer, &mut near.reader);
        let [near, far] = ends;
        (near, far)
    }

    fn join(writer: &mut Writer, reader: &mut Reader) {
        let mut listener = Listener::new(Trust::SameUser).expect("descriptors");
        let mut connecting = reader.connect(listener.address(), WriterKey::default()).expect("it listens");
        let request = listener.accept().expect("descriptors").expect("it has connected");
        writer.admit(request, Overflow::Block).expect("memory");
        reader.add(connecting.poll().expect("admitted").expect("answered")).expect("the only one");
    }

    fn pin(cpu: usize) {
        os_thread::set_affinity(&[cpu]).unwrap_or_else(|error| eprintln!("{error}"));
    }

    /// The one-way latencies of one round in ns, sorted.
    fn latencies_ns((mut near, mut far): (Box<dyn End>, Box<dyn End>), round_trips: usize) -> Vec<u64> {
        let echo = thread::spawn(move || {
            pin(1);
            for _ in 0..WARM_UP + round_trips {
                far.receive();
                far.send();
            }
            far
        });
        pin(0);
        let mut latencies_ns = Vec::with_capacity(round_trips);
        for round in 0..WARM_UP + round_trips {
            let start = MonotonicNs::now();
            near.send();
            near.receive();
            if round >= WARM_UP {
                latencies_ns.push(MonotonicNs::now().since(start).as_nanos() as u64 / 2);
            }
        }
        drop(echo.join().expect("no panic"));
        latencies_ns.sort_unstable();
        latencies_ns
    }

    /// Samples passed per second, from one thread to another that polls.
    fn hand_overs_per_second(bytes: usize) -> f64 {
        let mut writer = Writer::new(WriterConfig::default()).expect("the defaults are good");
        let mut reader = Reader::new(ReaderConfig::default()).expect("Linux 5.16");
        join(&mut writer, &mut reader);
        let thread = thread::spawn(move || {
            pin(1);
            let mut count = 0;
            while count < HAND_OVERS {
                if let Some(sample) = reader.take().expect("none is held") {
                    std::hint::black_box(sample[0]);
                    count += 1;
                }
            }
        });
        pin(0);
        let start = MonotonicNs::now();
        for _ in 0..HAND_OVERS {
            let mut slot = writer.loan(bytes).expect("a slot");
            slot[0] = slot[0].wrapping_add(1);
            while let Err(error) = writer.publish(slot, Metadata::default()) {
                slot = error.slot;
                std::hint::spin_loop();
            }
        }
        thread.join().expect("no panic");
        HAND_OVERS as f64 / MonotonicNs::now().since(start).as_secs_f64()
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    pub(super) fn main() {
        let rounds: usize =
            std::env::args().nth(1).map_or(5, |text| text.parse().expect("ROUNDS is a number above 0")).max(1);
        if !thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
            println!("this example needs two CPUs, because polling threads cannot share one");
            return;
        }
        let guard = os_thread::CpuLatencyGuard::hold(0);
        match &guard {
            Ok(_) => println!("/dev/cpu_dma_latency held at 0"),
            Err(error) => println!("idle CPUs may sleep: {error}"),
        }
        print_latencies(rounds, "polling", PATIENCE);
        print_latencies(rounds, "asleep in between", Duration::ZERO);

        println!("\n32 bytes from one thread to another: median of {rounds} rounds of {HAND_OVERS}");
        let rates = (0..rounds).map(|_| hand_overs_per_second(32)).collect();
        println!("{:>12.0} hand-overs/s", median(rates));
    }

    fn print_latencies(rounds: usize, kind: &str, spin: Duration) {
        println!("\none-way latency, {kind}: median of {rounds} rounds of {ROUND_TRIPS} round trips");
        println!("{:>10}  {:<18} {:>9} {:>9} {:>7}", "bytes", "", "p50 us", "p99 us", "ratio");
        let mut runs = vec![Vec::<(f64, f64)>::new(); SIZES.len() + 1];
        for _ in 0..rounds {
            for (row, runs) in runs.iter_mut().enumerate() {
                let pair: (Box<dyn End>, Box<dyn End>) =
                    if let Some(&bytes) = row.checked_sub(1).and_then(|row| SIZES.get(row)) {
                        let (near, far) = ours(bytes, spin);
                        (Box::new(near), Box::new(far))
                    } else {
                        let Words { near, far } = Words::new();
                        let sleeps = spin.is_zero();
                        let end = |own, other| Box::new(Bare { own, other, count: 0, sleeps });
                        (end(near, far), end(far, near))
                    };
                let sorted = latencies_ns(pair, ROUND_TRIPS);
                runs.push((sorted[sorted.len() / 2] as f64 / 1e3, sorted[sorted.len() * 99 / 100] as f64 / 1e3));
            }
        }
        let mut floor = None;
        for (row, runs) in runs.iter().enumerate() {
            let p50_us = median(runs.iter().map(|run| run.0).collect());
            let p99_us = median(runs.iter().map(|run| run.1).collect());
            let ratio = p50_us / *floor.get_or_insert(p50_us);
            let bytes = row.checked_sub(1).and_then(|row| SIZES.get(row));
            let (bytes, name) = bytes.map_or(("4".to_owned(), "a bare word"), |bytes| (bytes.to_string(), "channel"));
            println!("{bytes:>10}  {name:<18} {p50_us:>9.3} {p99_us:>9.3} {ratio:>7.3}");
        }
    }
}
