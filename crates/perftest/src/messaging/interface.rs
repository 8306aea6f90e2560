//! Error for a missing interface.

use std::net::IpAddr;

use crate::error::Error;
use crate::plan::TransportKind;

/// Names the missing interface, and the existing ones.
pub(super) fn missing_interface(wanted: &str, kind: TransportKind) -> Result<String, Error> {
    let all = if_addrs::get_if_addrs()
        .map_err(|error| Error::Setup(format!("Cannot list the network interfaces: {error}")))?;
    let of_kind = |address: IpAddr| address.is_ipv4() == kind.is_ipv4();
    let mut names: Vec<_> = all
        .iter()
        .filter(|interface| of_kind(interface.ip()))
        .map(|interface| format!("{} ({})", interface.name, interface.ip()))
        .collect();
    names.sort();
    let names = names.join(", ");
    Ok(format!("-nic {wanted}: no such interface or address; available are: {names}"))
}
