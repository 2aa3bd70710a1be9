//! The guide for users, in reading order. Each page is a file of the repository's `docs`, and rustdoc runs its
//! examples.
//!
//! 1. [`getting_started`]: install, take a lock, run a body under it.
//! 2. [`choosing_a_primitive`]: which lock, semaphore or latch fits.
//! 3. [`errors_and_http`]: what each error says, and which status a service answers.
//! 4. [`blocking`]: the same locks for threads, without async.
//! 5. [`singleton_worker`]: work that one process of a fleet does at a time.
//! 6. [`leaders`]: elect one leader of many processes, and tell it when to stop.
//! 7. [`testing`]: leases and failures on a virtual clock.
//! 8. [`deploying`]: connections, TLS, timeouts, permissions, shutdown, restarts.
//! 9. [`observing`]: metrics, logs, alerts, observers.
//! 10. [`scale`]: many masters and clients, in figures.
//! 11. [`servers`]: tested versions, managed services and forks.
//! 12. [`from_redisson`]: each call of Redisson and its counterpart.
//! 13. [`from_other_libraries`]: ShedLock, redsync and rslock.
//! 14. [`attribute`]: all options of `#[locked]`.
//! 15. [`configuration`]: all fields of a configuration.

/// The link targets for rustdoc. The first definition of a link wins, so these targets replace the relative targets at
/// the end of a page.
macro_rules! links {
    () => {
        concat!(
            "[getting-started]: crate::guide::getting_started\n",
            "[choosing]: crate::guide::choosing_a_primitive\n",
            "[errors]: crate::guide::errors_and_http\n",
            "[blocking]: crate::guide::blocking\n",
            "[worker]: crate::guide::singleton_worker\n",
            "[leaders]: crate::guide::leaders\n",
            "[testing]: crate::guide::testing\n",
            "[deploying]: crate::guide::deploying\n",
            "[observing]: crate::guide::observing\n",
            "[scale]: crate::guide::scale\n",
            "[servers]: crate::guide::servers\n",
            "[from-redisson]: crate::guide::from_redisson\n",
            "[from-others]: crate::guide::from_other_libraries\n",
            "[attribute]: crate::guide::attribute\n",
            "[configuration]: crate::guide::configuration\n",
            "[command]: https://github.com/leasehold-rs/leasehold/blob/main/docs/command.md\n",
            "[alerts]: https://github.com/leasehold-rs/leasehold/blob/main/docs/observability/alerts.yml\n",
            "[dashboard]: https://github.com/leasehold-rs/leasehold/blob/main/docs/observability/dashboard.json\n",
            "[cost]: https://github.com/leasehold-rs/leasehold/blob/main/docs/results/observing.md\n",
            "[opentelemetry]: https://github.com/leasehold-rs/leasehold/blob/main/docs/observability/opentelemetry.md\n",
            "[page]: https://github.com/leasehold-rs/leasehold/blob/main/docs/dashboard.md\n",
            "[election-figures]: https://github.com/leasehold-rs/leasehold/blob/main/docs/results/elections.md\n",
            "[interop]: https://github.com/leasehold-rs/leasehold/blob/main/docs/interop.md\n",
            "[interop-plain]: https://github.com/leasehold-rs/leasehold/blob/main/docs/interop-plain.md\n",
            "[plain-figures]: https://github.com/leasehold-rs/leasehold/blob/main/docs/results/plain-lock.md\n",
            "[one-server]: https://github.com/leasehold-rs/leasehold/blob/main/docs/protocol.md#195-one-server-behind-an-address\n",
            "[runtime]: https://github.com/leasehold-rs/leasehold/blob/main/docs/decisions/0023-the-runtime-of-the-callers.md\n",
            "[guarantees]: https://github.com/leasehold-rs/leasehold/blob/main/docs/guarantees.md\n",
            "[security]: https://github.com/leasehold-rs/leasehold/blob/main/SECURITY.md\n",
            "[examples]: https://github.com/leasehold-rs/leasehold/blob/main/examples/README.md\n",
            "[application]: https://github.com/leasehold-rs/leasehold/blob/main/crates/leasehold/tests/it/application.rs\n",
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
    getting_started = "getting-started.md";
    choosing_a_primitive = "choosing-a-primitive.md";
    errors_and_http = "errors-and-http.md";
    blocking = "blocking.md";
    singleton_worker = "singleton-worker.md";
    leaders = "leaders.md";
    testing = "testing.md";
    deploying = "deploying.md";
    scale = "scale.md";
    servers = "servers.md";
    from_redisson = "from-redisson.md";
    from_other_libraries = "from-other-libraries.md";
    attribute = "attribute.md";
    configuration = "configuration.md";
}

// The program of the page needs the feature.
#[cfg(feature = "metrics")]
pages! {
    observing = "observing.md";
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
