//! Real sockets on loopback.

#[allow(dead_code, reason = "each test program uses a part")]
mod common;

use common::{patience, pattern, receive, receive_rest, send, socket, try_train};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::udp::{
    ConnectedSockets, Direction, MAX_DATAGRAM_BYTES, MAX_TRAIN_BYTES, OpenError, ReceiveError, Receiver,
    ReceiverOptions, Socket, SocketOptions, Transmit, Wait,
};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

fn receiver() -> Receiver {
    Receiver::new(&ReceiverOptions::default())
}

#[test]
fn datagram_arrives_with_its_source_over_both_ip_versions() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let open = || Socket::unicast(address.parse().unwrap(), &SocketOptions::default()).unwrap();
        let (near, far) = (open(), open());
        let slices = [IoSlice::new(b"RT"), IoSlice::new(b""), IoSlice::new(b"PS")];
        let sent = near.send(&[Transmit { slices: &slices, destination: far.local_address(), segment_bytes: None }]);
        assert_eq!((sent.processed, sent.accepted), (1, 1), "{sent:?}");
        let mut receiver = receiver();
        let mut datagrams = receiver.receive(&far, Wait::Block).unwrap();
        let datagram = datagrams.next().unwrap();
        assert_eq!((datagram.bytes(), datagram.source), (&b"RTPS"[..], near.local_address()));
        assert!(datagrams.next().is_none());
    }
}

#[test]
fn empty_and_longest_datagrams_arrive() {
    let (near, far, mut receiver) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()), receiver());
    let longest = pattern(MAX_DATAGRAM_BYTES);
    send(&near, far.local_address(), &[], None);
    send(&near, far.local_address(), &longest, None);
    assert_eq!(receive(&mut receiver, &far, 2), [Vec::new(), longest]);
    let sent = try_train(&near, far.local_address(), &vec![0; MAX_DATAGRAM_BYTES + 1], None);
    assert_eq!(sent.first_failure.unwrap().error.raw_os_error(), Some(libc::EMSGSIZE));
    assert_eq!(near.statistics().send_errors.too_large, 1);
}

#[test]
fn failed_transmit_is_skipped_and_batch_keeps_its_order() {
    let (near, far, mut receiver) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()), receiver());
    let contents: Vec<Vec<u8>> = (0..200_u8).map(|n| vec![n; 3]).collect();
    let slices: Vec<[IoSlice<'_>; 1]> = contents.iter().map(|content| [IoSlice::new(content)]).collect();
    let mut transmits: Vec<_> = slices
        .iter()
        .map(|slices| Transmit { slices, destination: far.local_address(), segment_bytes: None })
        .collect();
    // This socket has no route to an address of the other IP version.
    transmits[70].destination = "[::1]:7400".parse().unwrap();
    let sent = near.send(&transmits);
    assert_eq!((sent.processed, sent.accepted), (200, 199));
    assert_eq!(sent.first_failure.unwrap().index, 70);
    let mut expected = contents.clone();
    expected.remove(70);
    assert_eq!(receive(&mut receiver, &far, 199), expected);
    let statistics = near.statistics();
    assert_eq!((statistics.datagrams_sent, statistics.bytes_sent), (199, 597));
    assert_eq!(statistics.send_errors.total(), 1);
    assert!(statistics.send_calls < 12, "several datagrams per call: {statistics:?}");
    let statistics = far.statistics();
    assert_eq!((statistics.datagrams_received, statistics.bytes_received), (199, 597));
    assert!(statistics.receive_calls < 100, "several datagrams per call: {statistics:?}");
}

/// A super-datagram arrives as the same ordinary datagrams, no matter which side cuts or joins them.
#[test]
fn offloads_change_number_of_calls_only() {
    let (plain, offload) = (
        SocketOptions { segmentation_offload: false, receive_offload: false, ..Default::default() },
        SocketOptions::default(),
    );
    for (bytes, segment_bytes) in
        [(6400, 100), (6400, 101), (MAX_TRAIN_BYTES, 1200), (1, 1), (64, 1), (1000, 1000), (999, 1000)]
    {
        let content = pattern(bytes);
        let expected: Vec<_> = content.chunks(segment_bytes.into()).map(<[u8]>::to_vec).collect();
        for (sending, receiving) in [(&plain, &plain), (&plain, &offload), (&offload, &plain), (&offload, &offload)] {
            let (near, far, mut receiver) = (socket(sending), socket(receiving), receiver());
            send(&near, far.local_address(), &content, Some(segment_bytes));
            assert_eq!(receive(&mut receiver, &far, expected.len()), expected, "{bytes} {segment_bytes}");

            let (out, back) = (near.statistics(), far.statistics());
            assert_eq!((out.datagrams_sent, out.bytes_sent), (expected.len() as u64, bytes as u64));
            assert_eq!((back.datagrams_received, back.bytes_received), (expected.len() as u64, bytes as u64));
            let several = u64::from(expected.len() > 1);
            if near.segmentation_offload() {
                assert_eq!((out.send_calls, out.super_datagrams_sent), (1, several));
            }
            if near.segmentation_offload() && far.receive_offload() {
                assert_eq!(back.super_datagrams_received, several, "{bytes} {segment_bytes}");
            }
        }
    }
}

#[test]
fn train_in_many_slices_arrives() {
    let (near, far, mut receiver) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()), receiver());
    let content = pattern(1000);
    let slices: Vec<_> = content.chunks(7).map(IoSlice::new).collect();
    let segment_bytes = NonZeroU16::new(300);
    let sent = near.send(&[Transmit { slices: &slices, destination: far.local_address(), segment_bytes }]);
    assert_eq!(sent.accepted, 1, "{sent:?}");
    let expected: Vec<_> = content.chunks(300).map(<[u8]>::to_vec).collect();
    assert_eq!(receive(&mut receiver, &far, 4), expected);
}

/// Without checksums the kernel refuses to segment, like NICs without that ability: a real refusal by the real system
/// call.
#[cfg(target_os = "linux")]
#[test]
fn refused_super_datagram_and_later_ones_are_split_in_the_process() {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    let (near, far, mut receiver) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()), receiver());
    assert!(near.segmentation_offload(), "this kernel has UDP_SEGMENT");
    let on: libc::c_int = 1;
    // SAFETY: `on` lives across the call and its length is passed.
    let result = unsafe {
        let fd = near.as_fd().as_raw_fd();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const on).cast(), size_of_val(&on) as _)
    };
    assert_eq!(result, 0);

    let content = pattern(5000);
    let expected: Vec<_> = content.chunks(1000).map(<[u8]>::to_vec).collect();
    for refused in [true, false] {
        let sent = try_train(&near, far.local_address(), &content, Some(1000));
        assert_eq!((sent.accepted, sent.segmentation_refused), (1, refused), "{sent:?}");
        assert_eq!(receive(&mut receiver, &far, 5), expected);
        assert!(!near.segmentation_offload());
    }
    let statistics = near.statistics();
    assert_eq!((statistics.segmentation_fallbacks, statistics.super_datagrams_split), (1, 2));
    assert_eq!((statistics.datagrams_sent, statistics.super_datagrams_sent), (10, 0));
    assert_eq!(statistics.send_calls, 3, "one refused, two of five datagrams each");
    assert_eq!(statistics.send_errors.total(), 0);
}

#[test]
fn invalid_train_keeps_segmentation_offload_on() {
    let near = socket(&SocketOptions::default());
    // Port 0 is no destination: the kernel returns the same errno as for a segmentation that it cannot perform.
    let sent = try_train(&near, "127.0.0.1:0".parse().unwrap(), &pattern(200), Some(100));
    assert_eq!(sent.first_failure.unwrap().error.raw_os_error(), Some(libc::EINVAL));
    assert!(near.segmentation_offload() && !sent.segmentation_refused);
    assert_eq!(near.statistics().segmentation_fallbacks, 0);
}

#[test]
fn trains_above_limits_are_refused_and_others_are_sent() {
    let (near, far, mut receiver) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()), receiver());
    let destination = far.local_address();
    let (content, empty) = (pattern(MAX_TRAIN_BYTES + 1), [IoSlice::new(&[]); 1025]);
    let train = |slices, segment_bytes| Transmit { slices, destination, segment_bytes: NonZeroU16::new(segment_bytes) };
    let slices = [[IoSlice::new(&content)], [IoSlice::new(&content[..65])], [IoSlice::new(b"last")]];
    let transmits =
        [train(&slices[0], 1200), train(&slices[1], 1), train(&empty, 1), train(&empty[..1], 1), train(&slices[2], 4)];
    let sent = near.send(&transmits);
    assert_eq!((sent.processed, sent.accepted), (5, 1));
    assert_eq!(sent.first_failure.unwrap().error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(near.statistics().send_errors.other, 4);
    assert_eq!(receive(&mut receiver, &far, 1), [b"last"]);
}

#[test]
fn kept_bytes_never_change_and_released_buffers_are_reused() {
    let (near, far) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()));
    let mut receiver = Receiver::new(&ReceiverOptions { batch: 2, max_buffers: 8, ..Default::default() });
    let mut kept = Vec::new();
    for number in 0..6_u8 {
        send(&near, far.local_address(), &[number; 10], None);
        let datagram = receiver.receive(&far, Wait::Block).unwrap().next().unwrap();
        kept.push((Arc::clone(datagram.buffer), datagram.range));
    }
    for (number, (buffer, range)) in kept.iter().enumerate() {
        assert_eq!(buffer[range.clone()], [number as u8; 10]);
    }
    let addresses: Vec<_> = kept.iter().map(|(buffer, _)| Arc::as_ptr(buffer) as usize).collect();
    kept.clear();
    let mut again = Vec::new();
    for _ in 0..20 {
        send(&near, far.local_address(), &[9; 10], None);
        let datagram = receiver.receive(&far, Wait::Block).unwrap().next().unwrap();
        again.push(Arc::as_ptr(datagram.buffer) as usize);
    }
    assert!(
        again[2..].iter().all(|address| again[1] == *address),
        "a buffer without an owner is reused at once: {again:x?}"
    );
    assert!(addresses.contains(&again[1]) || again[0] == again[1]);
    assert_eq!(far.statistics().pool_exhaustions, 0);
}

#[test]
fn datagrams_above_buffer_limit_are_copied_at_their_length() {
    let (near, far) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()));
    let mut receiver = Receiver::new(&ReceiverOptions { batch: 1, max_buffers: 3, ..Default::default() });
    let mut kept = Vec::new();
    for number in 0..6_u8 {
        send(&near, far.local_address(), &[number; 40], Some(20));
        let datagrams: Vec<_> = receiver.receive(&far, Wait::Block).unwrap().collect();
        assert_eq!(datagrams.len(), 2);
        kept.extend(datagrams.iter().map(|datagram| (Arc::clone(datagram.buffer), datagram.range.clone())));
    }
    for (place, (buffer, range)) in kept.iter().enumerate() {
        assert_eq!(buffer[range.clone()], [(place / 2) as u8; 20]);
        let expected = if place / 2 < 3 { 65_536 } else { 40 };
        assert_eq!(buffer.len(), expected, "datagram {place}");
    }
    assert_eq!(far.statistics().pool_exhaustions, 3);
    kept.clear();
    send(&near, far.local_address(), b"free", None);
    let datagram = receiver.receive(&far, Wait::Block).unwrap().next().unwrap();
    assert_eq!((datagram.bytes(), datagram.buffer.len()), (&b"free"[..], 65_536));
    assert_eq!(far.statistics().pool_exhaustions, 3);
}

#[test]
fn kept_datagrams_of_a_burst_leave_the_others_receivable() {
    let (near, far) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()));
    let mut receiver = Receiver::new(&ReceiverOptions { batch: 4, max_buffers: 6, ..Default::default() });
    let (mut kept, mut seen) = (Vec::new(), 0_u8);
    for _ in 0..50 {
        for number in 0..5 {
            send(&near, far.local_address(), &[seen + number], None);
        }
        let end = seen + 5;
        while seen < end {
            for datagram in receiver.receive(&far, Wait::Block).unwrap() {
                assert_eq!(datagram.bytes(), [seen]);
                if seen.is_multiple_of(3) {
                    kept.push((seen, Arc::clone(datagram.buffer), datagram.range));
                }
                seen += 1;
            }
        }
        for (number, buffer, range) in &kept {
            assert_eq!(buffer[range.clone()], [*number]);
        }
        kept.drain(..kept.len().saturating_sub(9));
    }
    assert_eq!(far.statistics().datagrams_received, 250);
}

#[test]
fn datagram_longer_than_the_buffer_is_dropped_and_counted() {
    let (near, far) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()));
    let mut receiver = Receiver::new(&ReceiverOptions { buffer_bytes: 100, ..Default::default() });
    send(&near, far.local_address(), &pattern(101), None);
    send(&near, far.local_address(), &pattern(100), None);
    assert_eq!(receive(&mut receiver, &far, 1), [pattern(100)]);
    let statistics = far.statistics();
    assert_eq!((statistics.datagrams_truncated, statistics.datagrams_received), (1, 1));
}

#[test]
fn shutting_down_wakes_a_blocked_receiver_and_not_the_sender() {
    for wait in [Wait::Block, Wait::Until(patience())] {
        let socket = Arc::new(socket(&SocketOptions::default()));
        let shared = Arc::clone(&socket);
        let thread = thread::spawn(move || {
            let mut receiver = Receiver::new(&ReceiverOptions::default());
            let first = receiver.receive(&shared, wait).map(|datagrams| datagrams.len());
            (first, receiver.receive(&shared, wait).map(|datagrams| datagrams.len()))
        });
        send(&socket, socket.local_address(), b"awake", None);
        // The receiver may be before, in or after its second wait: the result must be the same.
        socket.shut_down();
        let (first, second) = thread.join().unwrap();
        assert!(matches!(first, Ok(1) | Err(ReceiveError::ShutDown)), "{first:?}");
        assert!(matches!(second, Err(ReceiveError::ShutDown)), "{second:?}");
        let other = common::socket(&SocketOptions::default());
        send(&socket, other.local_address(), b"still sending", None);
        assert_eq!(receive(&mut receiver(), &other, 1), [b"still sending"]);
    }
}

/// The most important case, made deterministic: the kernel reports that the thread sleeps in the call.
#[cfg(target_os = "linux")]
#[test]
fn shutting_down_wakes_a_receiver_that_certainly_sleeps() {
    let socket = Arc::new(socket(&SocketOptions::default()));
    let shared = Arc::clone(&socket);
    let (tell, told) = std::sync::mpsc::sync_channel(16);
    let thread = thread::spawn(move || {
        // SAFETY: no pointers are involved.
        tell.send(unsafe { libc::gettid() }).unwrap();
        Receiver::new(&ReceiverOptions::default()).receive(&shared, Wait::Block).map(|datagrams| datagrams.len())
    });
    let place = format!("/proc/self/task/{}/syscall", told.recv().unwrap());
    let deadline = patience();
    let sleeping = [libc::SYS_recvmsg, libc::SYS_recvmmsg].map(|number| format!("{number} "));
    while !std::fs::read_to_string(&place).is_ok_and(|text| sleeping.iter().any(|call| text.starts_with(call))) {
        assert!(MonotonicNs::now() < deadline, "the thread does not sleep in a receive call");
        thread::yield_now();
    }
    socket.shut_down();
    assert!(matches!(thread.join().unwrap(), Err(ReceiveError::ShutDown)));
}

#[test]
fn shutting_down_wakes_a_poller() {
    let socket = Arc::new(socket(&SocketOptions::default()));
    let mut poller = Poller::new().unwrap();
    poller.add(&*socket, Token(3)).unwrap();
    let shared = Arc::clone(&socket);
    let thread = thread::spawn(move || shared.shut_down());
    assert_eq!(poller.wait(Some(patience())).unwrap().collect::<Vec<_>>(), [Token(3)]);
    thread.join().unwrap();
    assert!(matches!(receiver().receive(&socket, Wait::Block), Err(ReceiveError::ShutDown)));
}

#[test]
fn waits_that_end_without_a_datagram_return_none() {
    let (socket, mut receiver) = (socket(&SocketOptions::default()), receiver());
    assert_eq!(receiver.receive(&socket, Wait::NonBlocking).unwrap().len(), 0);
    let deadline = MonotonicNs::now().after(Duration::from_micros(500));
    assert_eq!(receiver.receive(&socket, Wait::Until(deadline)).unwrap().len(), 0);
    assert!(MonotonicNs::now() >= deadline);
}

#[test]
fn busy_port_and_foreign_address_are_different_errors() {
    let first = socket(&SocketOptions::default());
    let busy = first.local_address();
    match Socket::unicast(busy, &SocketOptions::default()) {
        Err(error @ OpenError::PortInUse { .. }) => {
            assert!(error.to_string().contains(&format!("port {}", busy.port())), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(Socket::multicast(busy, &SocketOptions::default()), Err(OpenError::PortInUse { .. })));
    let foreign: SocketAddr = "192.0.2.1:0".parse().unwrap();
    match Socket::unicast(foreign, &SocketOptions::default()) {
        Err(error @ OpenError::AddressNotAvailable { .. }) => {
            assert!(error.to_string().contains("192.0.2.1"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    assert!(Socket::unicast(busy, &SocketOptions::default()).is_ok(), "the port is free once the socket is dropped");
}

#[test]
fn overflow_of_the_receive_buffer_is_counted_to_the_last_datagram() {
    let far = socket(&SocketOptions { receive_buffer_bytes: Some(16 << 10), ..Default::default() });
    let (near, mut receiver) = (socket(&SocketOptions::default()), receiver());
    for _ in 0..500 {
        send(&near, far.local_address(), &[7; 200], None);
    }
    let dropped = far.statistics().kernel_drops;
    let received = receive_rest(&mut receiver, &far).len() as u64;
    assert!(dropped > 0 && received > 0, "{dropped} {received}");
    assert_eq!(dropped + received, 500);
    // From now on each datagram also carries the count, which must not be counted twice.
    send(&near, far.local_address(), &[8; 200], None);
    assert_eq!(receive(&mut receiver, &far, 1), [[8; 200]]);
    assert_eq!(far.statistics().kernel_drops, dropped);
}

#[test]
fn buffer_smaller_than_requested_is_reported() {
    // Not even root gets two billion bytes: the kernel's limit is half of that.
    let asked_bytes = i32::MAX as usize;
    let socket = socket(&SocketOptions { receive_buffer_bytes: Some(asked_bytes), ..Default::default() });
    let shortfalls: Vec<_> = socket.shortfalls().collect();
    assert_eq!(shortfalls.len(), 1, "{shortfalls:?}");
    assert_eq!((shortfalls[0].direction, shortfalls[0].asked_bytes), (Direction::Receive, asked_bytes));
    assert_eq!(shortfalls[0].granted_bytes, socket.receive_buffer_bytes());
    assert!(shortfalls[0].to_string().contains("sysctl"), "{}", shortfalls[0]);

    let modest =
        SocketOptions { receive_buffer_bytes: Some(65_536), send_buffer_bytes: Some(65_536), ..Default::default() };
    let socket = common::socket(&modest);
    assert_eq!(socket.shortfalls().count(), 0);
    assert!(socket.receive_buffer_bytes() >= 65_536 && socket.send_buffer_bytes() >= 65_536);
}

#[test]
fn concurrent_senders_on_one_socket_lose_and_mix_no_datagram() {
    const THREADS: u8 = 4;
    const EACH: u16 = 200;
    let (near, far, mut receiver) = (socket(&SocketOptions::default()), socket(&SocketOptions::default()), receiver());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (near, destination) = (&near, far.local_address());
            scope.spawn(move || {
                for number in 0..EACH {
                    let [high, low] = number.to_be_bytes();
                    send(near, destination, &[thread, high, low], None);
                }
            });
        }
        let all = receive(&mut receiver, &far, usize::from(THREADS) * usize::from(EACH));
        for thread in 0..THREADS {
            let numbers: Vec<_> =
                all.iter().filter(|d| d[0] == thread).map(|d| u16::from_be_bytes([d[1], d[2]])).collect();
            assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "thread {thread}");
        }
    });
    assert_eq!(near.statistics().datagrams_sent, u64::from(THREADS) * u64::from(EACH));
}

#[test]
fn ordinary_socket_receives_ordinary_datagrams() {
    let plain = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = socket(&SocketOptions::default());
    let content = pattern(2500);
    send(&socket, plain.local_addr().unwrap(), &content, Some(1000));
    let mut buffer = [0; 3000];
    for expected in content.chunks(1000) {
        let (length, source) = plain.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], source), (expected, socket.local_address()));
    }
    plain.send_to(b"back", socket.local_address()).unwrap();
    assert_eq!(receive(&mut receiver(), &socket, 1), [b"back"]);
}

#[test]
fn connected_socket_exchanges_datagrams_with_its_peer_only() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let far = Socket::unicast(address.parse().unwrap(), &SocketOptions::default()).unwrap();
        let near = Socket::connected(far.local_address(), &SocketOptions::default()).unwrap();
        assert_eq!(near.peer(), Some(far.local_address()));
        let mut receiver = receiver();
        send(&near, far.local_address(), b"one", None);
        send(&near, far.local_address(), b"twothree", Some(3));
        let source = near.local_address();
        let mut got = Vec::new();
        while got.len() < 4 {
            let datagrams = receiver.receive(&far, Wait::Until(patience())).unwrap();
            assert!(datagrams.len() > 0);
            got.extend(datagrams.map(|datagram| (datagram.bytes().to_vec(), datagram.source)));
        }
        let expected: Vec<_> = ["one", "two", "thr", "ee"].map(|text| (text.as_bytes().to_vec(), source)).into();
        assert_eq!(got, expected);

        let stranger = Socket::unicast(address.parse().unwrap(), &SocketOptions::default()).unwrap();
        send(&stranger, source, b"from a stranger", None);
        send(&far, source, b"from the peer", None);
        assert_eq!(receive(&mut receiver, &near, 1), [b"from the peer"]);
        assert!(receive_rest(&mut receiver, &near).is_empty());
    }
}

/// If no socket receives at the destination, an ICMP message comes back, and the next system call reports it instead of
/// sending. The datagram of that call must not be lost, and a blocked receiver must not fail.
#[test]
fn icmp_error_loses_no_datagram() {
    let far = socket(&SocketOptions::default());
    let destination = far.local_address();
    let near = Socket::connected(destination, &SocketOptions::default()).unwrap();
    drop(far);
    send(&near, destination, b"lost", None);
    let far = Socket::unicast(destination, &SocketOptions::default()).unwrap();
    send(&near, destination, b"arrives", None);
    let mut receiver = receiver();
    assert_eq!(receive(&mut receiver, &far, 1), [b"arrives"]);
    assert_eq!(near.statistics().send_errors.total(), 0);

    drop(far);
    send(&near, destination, b"lost", None);
    let waited = receiver.receive(&near, Wait::NonBlocking).unwrap();
    assert_eq!(waited.len(), 0);
    assert_eq!(near.statistics().receive_errors, 1);
}

#[test]
fn connected_sockets_are_shared_and_bounded() {
    let table = ConnectedSockets::new(2, &SocketOptions::default());
    let destinations = [7400, 7410, 7420].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let first = table.get(destinations[0]).unwrap().unwrap();
    let again = table.get(destinations[0]).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    let second = table.get(destinations[1]).unwrap().unwrap();
    assert!(table.get(destinations[2]).unwrap().is_none(), "no room");
    send(&second, destinations[1], b"counted", None);
    drop(second);
    assert_eq!(table.get(destinations[2]).unwrap().unwrap().peer(), Some(destinations[2]), "the table has room again");
    assert_eq!(table.statistics()[0].bytes_sent, 7, "closed sockets count as well");
    table.remove(&first);
    let anew = table.get(destinations[0]).unwrap().unwrap();
    assert!(!Arc::ptr_eq(&first, &anew), "a failed socket is not returned again");
    assert!(table.get(destinations[2]).unwrap().is_some(), "others stay");
    table.clear();
    assert!(!Arc::ptr_eq(&anew, &table.get(destinations[0]).unwrap().unwrap()));
}
