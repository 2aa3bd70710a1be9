//! The client that a process uses where none is named.
//!
//! Invariant: it is set at most once, so whoever has seen it sees the same one ever after.
//! Called by: users at the start of a program; functions under [`locked`](macro@crate::locked) that name no client.

use std::sync::OnceLock;

use crate::client::Client;
use crate::error::{AlreadyInstalled, NotInstalled};

static INSTALLED: OnceLock<Client> = OnceLock::new();

/// Makes this the client of every function that names none, for the rest of the process's life. To be called once, at
/// the start of a program; libraries should not.
///
/// Tests, which may want a client each, name it instead.
///
/// # Errors
/// [`AlreadyInstalled`] when it was called before; that client stays.
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

/// The client that was given to [`install`].
///
/// # Errors
/// [`NotInstalled`] before that.
pub fn installed() -> Result<Client, NotInstalled> {
    INSTALLED.get().cloned().ok_or(NotInstalled)
}
