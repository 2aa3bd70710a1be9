//! The servers that a client can connect to, and the URLs that name them.
//!
//! URLs and errors are the same in every build, whatever stores it contains. No `Debug`, `Display` or error shows a
//! password, and an error repeats no text of the URL except its scheme, because the rest might be one.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod address;
mod credentials;
mod error;
mod parse;
mod scheme;
mod server;
mod server_url;
#[cfg(test)]
mod tests;

pub use self::address::{Address, Servers};
pub use self::credentials::Credentials;
pub use self::error::UrlError;
pub use self::scheme::Scheme;
pub use self::server::Server;
pub use self::server_url::ServerUrl;
