//! The guide: pages for users, in the order of reading.
//!
//! Invariant: each page is a file of `docs/guide` or `docs`, included unchanged; only the targets of its links differ.
//! Called by: rustdoc, which also runs the examples. A normal build does not have this module.
//!
//! 1. [`attribute`]: all options of `#[locked]`.
//! 2. [`configuration`]: all fields of a configuration.

/// Link targets for rustdoc. The first definition of a link wins, so these replace the relative ones at the end of a page.
macro_rules! links {
    () => {
        concat!(
            "[attribute]: crate::guide::attribute\n",
            "[configuration]: crate::guide::configuration\n",
            "[command]: https://github.com/leasehold-rs/leasehold/blob/main/docs/command.md\n",
            "[interop]: https://github.com/leasehold-rs/leasehold/blob/main/docs/interop.md\n",
            "[assumptions]: https://github.com/leasehold-rs/leasehold/blob/main/docs/assumptions.md\n",
            "[security]: https://github.com/leasehold-rs/leasehold/blob/main/SECURITY.md\n",
            "[examples]: https://github.com/leasehold-rs/leasehold/blob/main/examples/README.md\n",
            "[application]: https://github.com/leasehold-rs/leasehold/blob/main/crates/leasehold/tests/application.rs\n",
            "\n",
        )
    };
}

/// Declares the modules of the pages.
macro_rules! pages {
    ($($module:ident = $file:literal;)*) => {
        $(
            #[doc = links!()]
            #[doc = include_str!(concat!("../docs/", $file))]
            pub mod $module {}
        )*
    };
}

pages! {
    attribute = "attribute.md";
    configuration = "configuration.md";
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
