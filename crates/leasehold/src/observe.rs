//! What a client tells its operators.
//!
//! Invariant: only this folder names `tracing`. Nothing here changes what a client does, and no secret is in any event.

pub(crate) mod plain_text;
pub(crate) mod replicas;
