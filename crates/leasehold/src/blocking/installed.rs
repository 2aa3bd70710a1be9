//! The installed client, for threads that block and name no client.
//!
//! Invariant: the async API has the same installed client.

use super::client::Client;
use crate::error::{AlreadyInstalled, NotInstalled};

/// Makes this the client of every function that names no client. See [`leasehold::install`](crate::install).
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

/// Returns the installed client. See [`leasehold::installed`](crate::installed).
///
/// # Errors
/// As [`leasehold::installed`](crate::installed).
pub fn installed() -> Result<Client, NotInstalled> {
    crate::installed().map(Client)
}
