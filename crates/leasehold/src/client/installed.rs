//! The installed client, one per process, for functions that name no client.
//!
//! Invariant: the installed client is set at most once, so every caller that sees a client sees the same client.

use std::sync::OnceLock;

use crate::client::Client;
use crate::error::{AlreadyInstalled, NotInstalled};

/// The client that [`install`] has set.
static INSTALLED: OnceLock<Client> = OnceLock::new();

/// Makes this the client of every function that names no client, for the life of the process. Call it once, at the
/// start of a program. Libraries must leave the call to the program.
///
/// Tests may want a client each. They name the client instead.
///
/// # Errors
/// [`AlreadyInstalled`] if a client is installed already. That client stays.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// leasehold::install(leasehold::Client::connect("memory://").await?)?;
/// let guard = leasehold::installed()?.lock("order:42").lock().await?;
/// # Ok(())
/// # }
/// ```
pub fn install(client: Client) -> Result<(), AlreadyInstalled> {
    INSTALLED.set(client).map_err(|_| AlreadyInstalled)
}

/// Returns the client that was given to [`install`].
///
/// # Errors
/// [`NotInstalled`] if no client is installed yet.
pub fn installed() -> Result<Client, NotInstalled> {
    INSTALLED.get().cloned().ok_or(NotInstalled)
}
