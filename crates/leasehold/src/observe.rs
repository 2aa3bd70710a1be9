//! What a client tells its operators.
//!
//! Invariant: only this folder names `tracing`. Nothing here changes what a client does, and no secret is in any event.

mod plain_text;
mod replicas;
pub(crate) mod reporter;
