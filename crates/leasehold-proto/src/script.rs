//! The Lua scripts and their headers.
//!
//! A script's text is `&'static str`. Names and owners reach it only as KEYS and ARGV.
//!
//! # How it works
//! Each file begins with comment lines that declare its inputs, for example `-- KEYS[1] lock hash the lock itself`. The
//! header is read once, and recipes build calls by those names, so no index is counted by hand.
//! `tests/script_headers.rs` compares every header with the body below it.

use std::sync::OnceLock;

use crate::outcome::Verb;

/// A script, embedded at compile time.
#[derive(Debug)]
pub struct Script {
    /// The purpose of the script.
    pub verb: Verb,
    source: &'static str,
    header: OnceLock<Header>,
    sha1: OnceLock<String>,
}

/// The names that a script's header declares, in the order of their indexes.
#[derive(Debug, Default)]
pub struct Header {
    /// The names of KEYS.
    pub keys: Vec<&'static str>,
    /// The names of ARGV.
    pub args: Vec<&'static str>,
}

impl Script {
    /// Creates a script from its text.
    #[must_use]
    pub const fn new(verb: Verb, source: &'static str) -> Self {
        Self { verb, source, header: OnceLock::new(), sha1: OnceLock::new() }
    }

    /// Returns the text of the script, as the client sends it.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// Returns the declared inputs.
    pub fn header(&self) -> &Header {
        self.header.get_or_init(|| Header::read(self.source))
    }

    /// Returns the script's SHA-1 in lower-case hex, for EVALSHA.
    pub fn sha1(&self) -> &str {
        self.sha1.get_or_init(|| sha1_smol::Sha1::from(self.source).hexdigest())
    }
}

impl Header {
    /// Reads the declarations of a script. Functions that several scripts share may come before them.
    #[must_use]
    pub fn read(source: &'static str) -> Self {
        let mut header = Self::default();
        for line in source.lines().filter_map(|line| line.strip_prefix("-- ")) {
            let mut words = line.split_whitespace();
            let (Some(place), Some(name)) = (words.next(), words.next()) else {
                continue;
            };
            if place.starts_with("KEYS[") {
                header.keys.push(name);
            } else if place.starts_with("ARGV[") {
                header.args.push(name);
            }
        }
        header
    }
}
