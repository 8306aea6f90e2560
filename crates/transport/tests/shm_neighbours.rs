//! Processes in other namespaces and of other users. Needs root to create them.
#![cfg(target_os = "linux")]

use peregrine_transport::shm::{
    Address, Listener, Overflow, Reader, ReaderConfig, Trust, Writer, WriterConfig, WriterKey,
};
use std::io;

/// Result of a reader that connects from a thread which ran `prepare`.
fn connect_from(
    address: Address,
    trust: Trust,
    prepare: fn() -> libc::c_long,
) -> io::Result<peregrine_transport::shm::Connecting> {
    let thread = std::thread::spawn(move || {
        if prepare() != 0 {
            panic!("this needs root: {}", io::Error::last_os_error());
        }
        Reader::new(ReaderConfig { trust, ..Default::default() })?.connect(address, WriterKey::default())
    });
    thread.join().unwrap()
}

/// Changes the user of this thread only: the function of the C library changes that of all threads.
fn become_another_user() -> libc::c_long {
    // SAFETY: no pointers are involved.
    unsafe { libc::syscall(libc::SYS_setresuid, 4321, 4321, 4321) }
}

#[test]
fn reader_in_another_network_namespace_is_refused() {
    let listener = Listener::new(Trust::SameUser).unwrap();
    // SAFETY: no pointers are involved; only this thread changes its namespace.
    let prepare = || libc::c_long::from(unsafe { libc::unshare(libc::CLONE_NEWNET) });
    let error = connect_from(listener.address(), Trust::SameUser, prepare).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
}

#[test]
fn reader_in_another_ipc_namespace_connects() {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    // SAFETY: no pointers are involved; only this thread changes its namespace.
    let prepare = || libc::c_long::from(unsafe { libc::unshare(libc::CLONE_NEWIPC) });
    let mut connecting = connect_from(listener.address(), Trust::SameUser, prepare).unwrap();
    let mut writer = Writer::new(WriterConfig::default()).unwrap();
    writer.admit(listener.accept().unwrap().unwrap(), Overflow::Block).unwrap();
    assert!(connecting.poll().unwrap().is_some());
}

#[test]
fn other_user_is_refused_by_both_sides_unless_all_are_trusted() {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    let error = connect_from(listener.address(), Trust::SameUser, become_another_user).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    let _trusting = connect_from(listener.address(), Trust::AnyUser, become_another_user).unwrap();
    assert!(listener.accept().unwrap().is_none());
    assert_eq!(listener.rejected_connections(), 2);

    let mut listener = Listener::new(Trust::AnyUser).unwrap();
    let _trusting = connect_from(listener.address(), Trust::AnyUser, become_another_user).unwrap();
    assert_eq!(listener.accept().unwrap().unwrap().peer().user, 4321);
}
