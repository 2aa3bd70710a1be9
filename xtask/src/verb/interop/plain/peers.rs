//! The peers, each with its program and its package.

use anyhow::{Context, Result};

use crate::toolchains::{Language, Workshop};

/// A library that shares locks with the plain lock.
#[derive(Debug)]
pub(super) struct Peer {
    /// The name of its module of tests.
    pub(super) name: &'static str,
    /// The name in the table.
    pub(super) title: &'static str,
    pub(super) language: Language,
    /// The package, as the lock file of its language calls it.
    pub(super) package: &'static str,
    /// The program below the folder of its language, or its main class.
    program: &'static str,
    /// False for the peers of `--all`.
    pub(super) in_ci: bool,
}

impl Peer {
    /// Returns the line that says to the tests how to start the peer: its name, its program and the arguments.
    pub(super) fn line(&self, workshop: &Workshop) -> Result<String> {
        let command = workshop.command(self.language, self.program);
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let words: Option<Vec<&str>> = words.map(|word| word.to_str()).collect();
        let words = words.context("the path of the checkout is not UTF-8")?;
        Ok([&[self.name], &words[..]].concat().join("\t"))
    }
}

/// All peers, in the order of the table.
pub(super) static ALL: [Peer; 15] = [
    in_ci("redis_py", "redis-py", Language::Python, "redis", "redis_py.py"),
    in_ci("redis_py_asyncio", "redis-py, asyncio", Language::Python, "redis", "redis_py_asyncio.py"),
    in_ci(
        "python_redis_lock",
        "python-redis-lock",
        Language::Python,
        "python-redis-lock",
        "python_redis_lock.py",
    ),
    in_ci("redsync", "redsync", Language::Go, "github.com/go-redsync/redsync/v4", "redsync"),
    in_ci("redlock5", "redlock (Node)", Language::Node, "redlock", "redlock5.js"),
    in_ci("redis_semaphore", "redis-semaphore", Language::Node, "redis-semaphore", "redis_semaphore.js"),
    in_ci("rslock", "rslock", Language::Rust, "rslock", "rslock"),
    in_all("pottery", "pottery", Language::Python, "pottery", "pottery_redlock.py"),
    in_all("bsm", "bsm/redislock", Language::Go, "github.com/bsm/redislock", "bsm"),
    in_all("redlock4", "redlock (Node)", Language::Node, "redlock4", "redlock4.js"),
    in_all("rlock", "rlock", Language::Rust, "rlock", "rlock"),
    in_all("shedlock", "ShedLock", Language::Java, "shedlock", "leasehold.plain.ShedLock"),
    in_all(
        "safe_shedlock",
        "ShedLock, `safeUpdate`",
        Language::Java,
        "shedlock",
        "leasehold.plain.SafeShedLock",
    ),
    in_all("spring", "Spring Integration", Language::Java, "spring-integration", "leasehold.plain.Spring"),
    in_all(
        "spring_pub_sub",
        "Spring Integration, `PUB_SUB_LOCK`",
        Language::Java,
        "spring-integration",
        "leasehold.plain.SpringPubSub",
    ),
];

const fn in_ci(
    name: &'static str,
    title: &'static str,
    language: Language,
    package: &'static str,
    program: &'static str,
) -> Peer {
    Peer { name, title, language, package, program, in_ci: true }
}

const fn in_all(
    name: &'static str,
    title: &'static str,
    language: Language,
    package: &'static str,
    program: &'static str,
) -> Peer {
    Peer { in_ci: false, ..in_ci(name, title, language, package, program) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchains::{Profile, versions};

    #[test]
    fn every_peer_is_pinned() {
        let workshop = Workshop::new("interop/plain", "plain-peers", Profile::Dev).unwrap();
        for peer in &ALL {
            let version = versions::of(peer.language, peer.package, &workshop).unwrap();
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
            assert!(peer.line(&workshop).unwrap().starts_with(&format!("{}\t", peer.name)));
        }
    }
}
