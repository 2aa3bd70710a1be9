//! The contenders.

use std::process::Command;

use crate::toolchains::{Language, Workshop};

/// The contender that the ratios of the report compare with.
pub(super) const HANDWRITTEN: &str = "hand-written";

/// A contender.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) language: Language,
    /// The package, as the lock file of its language calls it.
    pub(super) package: &'static str,
    /// The program below the folder of its language, or its main class.
    program: &'static str,
    /// The argument after the URL, if there is one.
    argument: Option<&'static str>,
    /// True if all its threads run on one processor, to show what the threads of a client cost each other.
    pub(super) is_pinned: bool,
    /// The way in which a waiter learns of a release.
    pub(super) waits: &'static str,
}

impl Contender {
    /// Returns true for the contenders of this library.
    pub(super) fn is_ours(&self) -> bool {
        self.package == "leasehold"
    }

    /// Returns the command that runs the contender against a server.
    pub(super) fn command(&self, workshop: &Workshop, url: &str) -> Command {
        let mut command = workshop.command(self.language, self.program);
        command.arg(url).args(self.argument);
        if self.is_pinned { pinned(&command) } else { command }
    }
}

/// Returns the same command on the first processor.
fn pinned(command: &Command) -> Command {
    let mut pinned = Command::new("taskset");
    pinned.args(["--cpu-list", "0"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => pinned.env(name, value),
            None => pinned.env_remove(name),
        };
    }
    command.get_current_dir().into_iter().for_each(|folder| {
        pinned.current_dir(folder);
    });
    pinned
}

/// Returns the names of all contenders.
pub(super) fn names() -> Vec<&'static str> {
    ALL.iter().map(|contender| contender.name).collect()
}

/// All contenders, in the order of the report.
pub(super) static ALL: [Contender; 17] = [
    ours("leasehold", "async"),
    Contender { is_pinned: true, ..ours("leasehold on one CPU", "async") },
    ours("leasehold blocking", "blocking"),
    ours("leasehold run", "run"),
    ours("leasehold locked", "locked"),
    ours("leasehold plain", "plain"),
    peer(HANDWRITTEN, Language::Rust, "redis", "peer-handwritten", "polls every 1 ms"),
    peer("rlock", Language::Rust, "rlock", "peer-rlock", "polls every 100 ms"),
    peer("rslock", Language::Rust, "rslock", "peer-rslock", "polls after at most 200 ms"),
    peer("redsync", Language::Go, "github.com/go-redsync/redsync/v4", "redsync", "polls after 50 to 250 ms"),
    peer("bsm/redislock", Language::Go, "github.com/bsm/redislock", "bsm-redislock", "polls every 1 ms"),
    peer("rueidislock", Language::Go, "github.com/redis/rueidis", "rueidislock", "invalidation messages"),
    peer("Redisson", Language::Java, "redisson", "leasehold.peers.Main", "publish and subscribe"),
    peer("node redlock", Language::Node, "redlock", "redlock/main.js", "polls after 200 to 300 ms"),
    peer(
        "redis-semaphore",
        Language::Node,
        "redis-semaphore",
        "redis-semaphore/main.js",
        "polls every 10 ms",
    ),
    peer("redis-py", Language::Python, "redis", "redis_asyncio.py", "polls every 100 ms"),
    peer(
        "python-redis-lock",
        Language::Python,
        "python-redis-lock",
        "python_redis_lock.py",
        "blocks in the server",
    ),
];

const fn peer(
    name: &'static str,
    language: Language,
    package: &'static str,
    program: &'static str,
    waits: &'static str,
) -> Contender {
    Contender { name, language, package, program, argument: None, is_pinned: false, waits }
}

const fn ours(name: &'static str, api: &'static str) -> Contender {
    let contender = peer(name, Language::Rust, "leasehold", "peer-leasehold", "publish and subscribe");
    Contender { argument: Some(api), ..contender }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchains::versions;

    #[test]
    fn each_contender_has_a_name_and_a_program_of_its_own() {
        for contender in &ALL {
            let same = ALL.iter().filter(|other| {
                let program = |it: &Contender| (it.program, it.argument, it.is_pinned);
                let is_program = program(other) == program(contender);
                other.name == contender.name || is_program
            });
            assert_eq!(same.count(), 1, "{}", contender.name);
        }
        assert!(ALL.iter().any(|contender| contender.name == HANDWRITTEN && !contender.is_ours()));
    }

    #[test]
    fn every_contender_is_pinned() {
        let workshop = super::super::workshop().unwrap();
        for contender in &ALL {
            let version = versions::of(contender.language, contender.package, &workshop).unwrap();
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        }
    }
}
