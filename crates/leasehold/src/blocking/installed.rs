//! The client that a process uses where none is named, for threads that block.
//!
//! Invariant: it is the one of the async face.
//! Called by: users at the start of a program; functions that name no client.

use super::Client;
use crate::error::{AlreadyInstalled, NotInstalled};

/// Makes this the client of every function that names none: [`leasehold::install`](crate::install).
///
/// # Errors
/// As [`leasehold::install`](crate::install).
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// leasehold::blocking::install(leasehold::blocking::Client::connect("memory://")?)?;
/// let guard = leasehold::blocking::installed()?.lock("order:42").lock()?;
/// # Ok(())
/// # }
/// ```
pub fn install(client: Client) -> Result<(), AlreadyInstalled> {
    crate::install(client.0)
}

/// The installed client: [`leasehold::installed`](crate::installed).
///
/// # Errors
/// As [`leasehold::installed`](crate::installed).
pub fn installed() -> Result<Client, NotInstalled> {
    crate::installed().map(Client)
}
