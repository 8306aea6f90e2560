//! Message headers of the operating system: the only module that assembles pointers to buffers, addresses and control
//! data, and the four system calls that use them.

use super::address::RawAddress;
use crate::sys;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::RawFd;
use std::ptr;

/// The header of one message among several, with the length the kernel reports for it.
#[cfg(target_os = "linux")]
pub(super) type Header = libc::mmsghdr;

/// The header of one message, with the length the kernel reports for it.
#[cfg(not(target_os = "linux"))]
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Header {
    pub(super) msg_hdr: libc::msghdr,
    pub(super) msg_len: libc::c_uint,
}

/// Buffer for the control messages of one received message: `UDP_GRO` and `SO_RXQ_OVFL`, 24 bytes each.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ReceiveControl([u8; 64]);

/// Buffer for the control message of one sent message: `UDP_SEGMENT`, 24 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct SendControl([u8; 24]);

/// Bytes to send: the concatenation of `slices`.
pub(super) struct OutgoingDatagrams<'a> {
    pub(super) slices: &'a [IoSlice<'a>],
    /// `None`: the peer of a connected socket.
    pub(super) destination: Option<SocketAddr>,
    /// The kernel cuts the bytes into datagrams of this length (`UDP_SEGMENT`).
    pub(super) segment_bytes: Option<NonZeroU16>,
}

/// Sends one datagram of contiguous bytes. Saves some 30 ns compared with a message header.
pub(super) fn send_to(
    fd: RawFd,
    bytes: &[u8],
    destination: Option<SocketAddr>,
    flags: libc::c_int,
) -> io::Result<(usize, u64)> {
    let mut address = MaybeUninit::uninit();
    let (name, length) = match destination {
        Some(destination) => {
            let length = RawAddress::write(&mut address, destination);
            (address.as_ptr().cast(), length)
        }
        None => (ptr::null(), 0),
    };
    // SAFETY: `bytes` is readable memory of the length that is passed; `name` is null or points to an address of
    // `length` bytes.
    let sent = unsafe { libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), flags, name, length) };
    sys::check_length(sent).map(|bytes| (1, bytes as u64))
}

/// Up to `N` messages to send, on the stack. Only used entries are initialised.
pub(super) struct SendMessages<const N: usize> {
    headers: [MaybeUninit<Header>; N],
    addresses: [MaybeUninit<RawAddress>; N],
    controls: [MaybeUninit<SendControl>; N],
}

impl<const N: usize> SendMessages<N> {
    pub(super) const fn new() -> Self {
        Self {
            headers: [const { MaybeUninit::uninit() }; N],
            addresses: [const { MaybeUninit::uninit() }; N],
            controls: [const { MaybeUninit::uninit() }; N],
        }
    }

    /// Sends the first `N` of `messages` in one system call.
    ///
    /// Returns how many the kernel accepted, at least one, and their payload bytes; or the error of the first message.
    pub(super) fn send<'a>(
        &mut self,
        fd: RawFd,
        messages: impl Iterator<Item = OutgoingDatagrams<'a>>,
        flags: libc::c_int,
    ) -> io::Result<(usize, u64)> {
        let mut count = 0;
        let places = self.headers.iter_mut().zip(&mut self.addresses).zip(&mut self.controls);
        for (((header, address), control), message) in places.zip(messages) {
            fill(header.write(zeroed_header()), address, control, &message);
            count += 1;
        }
        let headers = self.headers.get_mut(..count).unwrap_or_default();
        // SAFETY: the loop above has initialised the first `count` headers. They point to slices that the messages
        // borrow for `'a`, and to addresses and controls of `self`, which does not move before the call has returned.
        unsafe { send_headers(fd, headers.assume_init_mut(), flags) }
    }
}

/// Headers for received messages, set up once and reset cheaply. Each belongs to one buffer.
pub(super) struct ReceiveMessages {
    headers: Box<[Header]>,
    // Boxed, so that the pointers in `headers` stay valid when the value moves.
    parts: Box<[ReceiveParts]>,
}

struct ReceiveParts {
    slice: libc::iovec,
    address: RawAddress,
    control: ReceiveControl,
}

// SAFETY: the pointers lead to boxes of this same value and to buffers that the owner of this value also owns.
unsafe impl Send for ReceiveMessages {}

/// Report of the kernel about one received message.
pub(super) struct Incoming {
    pub(super) bytes: usize,
    /// `None` if the kernel gave no address: no message was received, and the socket has been shut down.
    pub(super) source: Option<SocketAddr>,
    pub(super) truncated: bool,
    /// The message contains several datagrams, each of this length except the last, which may be shorter (`UDP_GRO`).
    pub(super) segment_bytes: Option<usize>,
    /// Datagrams dropped so far because the socket's buffer was full, modulo 2^32 (`SO_RXQ_OVFL`).
    pub(super) kernel_drops: Option<u32>,
}

impl ReceiveMessages {
    pub(super) fn new(count: usize) -> Self {
        let empty = ReceiveParts {
            slice: libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 },
            address: RawAddress::zeroed(),
            control: ReceiveControl([0; 64]),
        };
        let mut parts: Box<[ReceiveParts]> = (0..count).map(|_| ReceiveParts { ..empty }).collect();
        let headers = parts.iter_mut().map(|part| {
            let mut header = zeroed_header();
            header.msg_hdr.msg_iov = &raw mut part.slice;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut part.address).cast();
            header.msg_hdr.msg_control = (&raw mut part.control).cast();
            header
        });
        Self { headers: headers.collect(), parts }
    }

    /// Prepares message `index` to be received into `buffer`.
    pub(super) fn prepare(&mut self, index: usize, buffer: &mut [u8]) {
        if let (Some(header), Some(part)) = (self.headers.get_mut(index), self.parts.get_mut(index)) {
            part.slice.iov_base = buffer.as_mut_ptr().cast();
            part.slice.iov_len = buffer.len();
            header.msg_hdr.msg_namelen = RawAddress::CAPACITY;
            header.msg_hdr.msg_controllen = size_of::<ReceiveControl>() as _;
            header.msg_hdr.msg_flags = 0;
        }
    }

    /// Receives one message.
    ///
    /// # Safety
    /// Message 0 was prepared after the last receive, and its buffer is alive and not borrowed.
    pub(super) unsafe fn receive_one(&mut self, fd: RawFd, flags: libc::c_int) -> io::Result<usize> {
        let Some(header) = self.headers.first_mut() else { return Ok(0) };
        // SAFETY: the header points to an address and control data in boxes of `self` and, as the caller guarantees, to
        // a writable buffer.
        let bytes = sys::check_length(unsafe { libc::recvmsg(fd, &raw mut header.msg_hdr, flags) })?;
        header.msg_len = bytes as libc::c_uint;
        Ok(1)
    }

    /// Receives up to `count` messages; waits, if at all, only for the first.
    ///
    /// # Safety
    /// As [`Self::receive_one`], for each of the first `count` messages.
    #[cfg(target_os = "linux")]
    pub(super) unsafe fn receive_many(&mut self, fd: RawFd, count: usize, flags: libc::c_int) -> io::Result<usize> {
        let count = count.min(self.headers.len()) as libc::c_uint;
        let flags = flags | libc::MSG_WAITFORONE;
        let headers = self.headers.as_mut_ptr();
        // SAFETY: as in `receive_one`; `count` is at most the number of headers. The flags' type differs between libcs.
        let received = unsafe { libc::recvmmsg(fd, headers, count, flags as _, ptr::null_mut()) };
        sys::check(received).map(|received| received as usize)
    }

    /// The message received at `index`.
    pub(super) fn incoming(&self, index: usize) -> Option<Incoming> {
        let (header, part) = (self.headers.get(index)?, self.parts.get(index)?);
        let (segment_bytes, kernel_drops) = read_controls(&header.msg_hdr);
        Some(Incoming {
            bytes: (header.msg_len as usize).min(part.slice.iov_len),
            source: part.address.read(header.msg_hdr.msg_namelen),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            segment_bytes,
            kernel_drops,
        })
    }
}

/// Segment length and drop count, if the kernel reported them.
#[cfg(target_os = "linux")]
fn read_controls(header: &libc::msghdr) -> (Option<usize>, Option<u32>) {
    let (mut segment_bytes, mut kernel_drops) = (None, None);
    // SAFETY: the kernel has written well-formed control messages of `msg_controllen` bytes to the control buffer,
    // which is aligned for their headers.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: `CMSG_FIRSTHDR` and `CMSG_NXTHDR` return null or a whole header inside the control buffer.
    while let Some(found) = unsafe { control.as_ref() } {
        // SAFETY: a control message of these kinds carries four bytes; unaligned reads take any address.
        let value = || unsafe { libc::CMSG_DATA(found).cast::<u32>().read_unaligned() };
        match (found.cmsg_level, found.cmsg_type) {
            (libc::SOL_UDP, libc::UDP_GRO) => segment_bytes = Some(value() as usize),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => kernel_drops = Some(value()),
            _ => {}
        }
        // SAFETY: as for `CMSG_FIRSTHDR`.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    (segment_bytes, kernel_drops)
}

#[cfg(not(target_os = "linux"))]
fn read_controls(_: &libc::msghdr) -> (Option<usize>, Option<u32>) {
    (None, None)
}

fn zeroed_header() -> Header {
    // SAFETY: plain integers and pointers, for which all-zero bytes are a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn fill(
    header: &mut Header,
    address: &mut MaybeUninit<RawAddress>,
    control: &mut MaybeUninit<SendControl>,
    message: &OutgoingDatagrams<'_>,
) {
    let header = &mut header.msg_hdr;
    if let Some(destination) = message.destination {
        header.msg_namelen = RawAddress::write(address, destination);
        header.msg_name = address.as_mut_ptr().cast();
    }
    // `IoSlice` is documented to be laid out as `iovec`; the kernel only reads through it.
    header.msg_iov = message.slices.as_ptr().cast_mut().cast();
    header.msg_iovlen = message.slices.len() as _;
    if let Some(segment_bytes) = message.segment_bytes {
        write_segment_control(header, control, segment_bytes);
    }
}

#[cfg(target_os = "linux")]
fn write_segment_control(header: &mut libc::msghdr, control: &mut MaybeUninit<SendControl>, segment_bytes: NonZeroU16) {
    let control = control.write(SendControl([0; 24]));
    const VALUE_BYTES: libc::c_uint = size_of::<u16>() as libc::c_uint;
    // SAFETY: both only compute sizes.
    let (space, length) = unsafe { (libc::CMSG_SPACE(VALUE_BYTES), libc::CMSG_LEN(VALUE_BYTES)) };
    debug_assert!(space as usize <= size_of::<SendControl>());
    header.msg_control = (&raw mut *control).cast();
    header.msg_controllen = space as _;
    // SAFETY: `control` is aligned for a control header and large enough for it and the value, so the first header
    // exists and lies inside, as does its data.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        (*first).cmsg_level = libc::SOL_UDP;
        (*first).cmsg_type = libc::UDP_SEGMENT;
        (*first).cmsg_len = length as _;
        libc::CMSG_DATA(first).cast::<u16>().write_unaligned(segment_bytes.get());
    }
}

#[cfg(not(target_os = "linux"))]
fn write_segment_control(_: &mut libc::msghdr, _: &mut MaybeUninit<SendControl>, _: NonZeroU16) {
    debug_assert!(false, "segmentation offload is never offered on this system");
}

/// Sends the messages of `headers`, in one system call where the system supports that.
///
/// # Safety
/// Everything the headers point to is alive, and the address and control lengths are right.
unsafe fn send_headers(fd: RawFd, headers: &mut [Header], flags: libc::c_int) -> io::Result<(usize, u64)> {
    if let [single] = headers {
        // SAFETY: guaranteed by the caller.
        let bytes = sys::check_length(unsafe { libc::sendmsg(fd, &raw const single.msg_hdr, flags) })?;
        return Ok((1, bytes as u64));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { send_several(fd, headers, flags) }
}

#[cfg(target_os = "linux")]
unsafe fn send_several(fd: RawFd, headers: &mut [Header], flags: libc::c_int) -> io::Result<(usize, u64)> {
    let count = headers.len() as libc::c_uint;
    // SAFETY: guaranteed by the caller; `count` is the number of headers. The flags' type differs between libcs.
    let accepted = sys::check(unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, flags as _) })? as usize;
    Ok((accepted, headers.iter().take(accepted).map(|header| u64::from(header.msg_len)).sum()))
}

#[cfg(not(target_os = "linux"))]
unsafe fn send_several(fd: RawFd, headers: &mut [Header], flags: libc::c_int) -> io::Result<(usize, u64)> {
    let mut sum = 0;
    for (index, header) in headers.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        match sys::check_length(unsafe { libc::sendmsg(fd, &raw const header.msg_hdr, flags) }) {
            Ok(bytes) => sum += bytes as u64,
            Err(error) if index == 0 => return Err(error),
            Err(_) => return Ok((index, sum)),
        }
    }
    Ok((headers.len(), sum))
}
