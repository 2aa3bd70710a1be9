//! Functions that are not async.
