//! The rules for single Rust files.
//!
//! Invariant: comments and strings break no rule here, except that the rule for Lua reads strings.

use super::source::{Source, is_word};

/// The most lines of code that a file may have.
const SPLIT_AT: usize = 500;
/// The lines of code above which a file gets a note. Most files have fewer.
const USUAL: usize = 260;

/// The public pages of rustdoc, below `crates/leasehold/src`.
const PAGES: [&str; 7] =
    ["lib.rs", "blocking.rs", "config.rs", "error.rs", "owner.rs", "testing.rs", "guide.rs"];

/// All rules whose findings are errors.
pub(super) const RULES: [fn(&Source) -> Vec<String>; 9] =
    [back_ends, clocks, observers, lua, unfinished, fixed_sleeps, too_long, words, headers];

/// Floors, absence 2.
fn back_ends(source: &Source) -> Vec<String> {
    if !source.path.starts_with("crates/leasehold/src/")
        || source.path == "crates/leasehold/src/client/connect.rs"
    {
        return Vec::new();
    }
    // One text, because an import may spread over lines.
    let code: String = source.code().flat_map(|(_, line)| [line, "\n"]).collect();
    let named = code.match_indices("leasehold_store::").filter(|(at, path)| {
        let rest = &code[at + path.len()..];
        let imported = match rest.strip_prefix('{') {
            Some(list) => &list[..list.find(';').unwrap_or(list.len())],
            None => rest.split(|letter: char| !is_word(letter)).next().unwrap_or_default(),
        };
        ["redis", "embedded"].iter().any(|back_end| has_word(imported, back_end))
    });
    named
        .map(|(at, _)| {
            source.finding(code[..at].matches('\n').count() + 1, "only connect.rs names a back end")
        })
        .collect()
}

/// Floors, absence 4. Clippy forbids the same functions by their paths. This rule also finds similar names.
fn clocks(source: &Source) -> Vec<String> {
    const NAMES: [&str; 5] =
        ["Instant::now", "SystemTime::now", "thread::sleep", "tokio::time", "tokio::spawn"];
    if !source.is_library() || source.path.ends_with("/tokio_runtime.rs") {
        return Vec::new();
    }
    let hits = source.code().filter(|(_, line)| NAMES.iter().any(|name| has_word(line, name)));
    hits.map(|(line, _)| source.finding(line, "only the runtime files keep time, sleep or spawn")).collect()
}

/// Floors, absence 6.
fn observers(source: &Source) -> Vec<String> {
    if !source.is_library() || source.path.starts_with("crates/leasehold/src/observe") {
        return Vec::new();
    }
    let names = |line: &str| {
        ["tracing", "metrics"].iter().any(|name| {
            has_word(line, &format!("use {name}"))
                || places(line, &format!("{name}::")).any(|at| !line[..at].ends_with("::"))
        })
    };
    let hits = source.code().filter(|(_, line)| names(line));
    hits.map(|(line, _)| source.finding(line, "only leasehold/src/observe names tracing or metrics"))
        .collect()
}

/// Floors, absence 5: no Lua in strings.
fn lua(source: &Source) -> Vec<String> {
    if !source.is_library() {
        return Vec::new();
    }
    let hits =
        source.texts().filter(|(_, line)| line.contains("redis.call(") || line.contains("redis.pcall("));
    hits.map(|(line, _)| source.finding(line, "Lua exists only under leasehold-proto/scripts")).collect()
}

fn unfinished(source: &Source) -> Vec<String> {
    const MARKS: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];
    let hits = source.all_code().flat_map(|(number, line)| {
        MARKS.iter().filter(|mark| places(line, mark).next().is_some()).map(move |mark| (number, mark))
    });
    hits.map(|(line, mark)| source.finding(line, &format!("{mark} is not for keeping"))).collect()
}

/// Finds sleeps in tests, because a fixed time is too long on one machine and too short on another. A condition that
/// only time makes true is a sleep too. Methods are allowed, because virtual clocks have them.
fn fixed_sleeps(source: &Source) -> Vec<String> {
    const CALLS: [&str; 5] = ["sleep(", "sleep_until(", "sleep_ms(", "time_passes(", "park_timeout("];
    let sleeps = |line: &str| {
        let calls = CALLS.map(|call| places(line, call).collect::<Vec<_>>());
        calls.concat().iter().any(|&at| !line[..at].ends_with('.') && !line[..at].ends_with("fn "))
    };
    let hits = source.tests().filter(|(_, line)| sleeps(line) || waits_for_time(line));
    hits.map(|(line, _)| source.finding(line, "wait for a condition (testkit::wait), do not sleep")).collect()
}

/// Returns true for a closure whose whole condition is that some time has passed: `|| started.elapsed() >= span`.
fn waits_for_time(line: &str) -> bool {
    line.split("|| ").skip(1).any(|body| {
        let condition = body.split_once(".elapsed() >");
        condition.is_some_and(|(clock, _)| clock.chars().all(|letter| is_word(letter) || letter == '.'))
    })
}

fn too_long(source: &Source) -> Vec<String> {
    let length = source.length();
    if length <= SPLIT_AT {
        return Vec::new();
    }
    vec![format!("{}: {length} lines of code, split it ({SPLIT_AT} at most)", source.path)]
}

/// Words that the glossary replaces, limited to words without any other meaning.
fn words(source: &Source) -> Vec<String> {
    const FORBIDDEN: [(&str, &str); 5] = [
        ("patience", "wait"),
        ("heartbeat", "watchdog or renew"),
        ("ttl", "lease or remaining"),
        ("gc", "undo"),
        ("rollback", "undo"),
    ];
    let hits = source.all_code().flat_map(|(number, line)| {
        let parts = line.split(|letter: char| !letter.is_alphanumeric()).flat_map(humps);
        let found =
            parts.filter_map(|part| FORBIDDEN.iter().find(|(word, _)| part.eq_ignore_ascii_case(word)));
        found.map(move |words| (number, words))
    });
    hits.map(|(line, (word, ours))| source.finding(line, &format!("the project says {ours} and not {word}")))
        .collect()
}

/// The parts of a name in camel case: `Lease` and `Ttl` of `LeaseTtl`.
fn humps(name: &str) -> impl Iterator<Item = &str> {
    let begins =
        |at: usize| name[at..].starts_with(char::is_uppercase) && name[..at].ends_with(char::is_lowercase);
    let mut starts: Vec<usize> =
        name.char_indices().map(|(at, _)| at).filter(|&at| at == 0 || begins(at)).collect();
    starts.push(name.len());
    let ends: Vec<usize> = starts.iter().skip(1).copied().collect();
    starts.into_iter().zip(ends).map(|(from, to)| &name[from..to])
}

/// Each file opens with a sentence about itself, which may be followed by its invariant. A list of its callers would rot,
/// and the public pages of rustdoc are not for readers of the code.
fn headers(source: &Source) -> Vec<String> {
    if source.path.contains("/tests/ui/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !source.header().next().is_some_and(|line| line.starts_with("//! ")) {
        findings.push(source.finding(1, "the file does not open with `//! `"));
    }
    let is_public =
        source.path.strip_prefix("crates/leasehold/src/").is_some_and(|file| PAGES.contains(&file));
    for line in source.comments() {
        if line.text.starts_with("Called by:") {
            findings.push(source.finding(line.number, "no list of callers: it rots"));
        }
        if is_public && line.mark == Some("//!") && line.text.starts_with("Invariant:") {
            findings.push(source.finding(line.number, "no `Invariant:` on a public page of rustdoc"));
        }
    }
    findings
}

/// Notes a file that is longer than most.
pub(super) fn long_file(source: &Source) -> Option<String> {
    let length = source.length();
    let is_long = (USUAL + 1..=SPLIT_AT).contains(&length);
    is_long.then(|| format!("{}: {length} lines of code, most files have under {USUAL}", source.path))
}

/// The places of `name` that are not the end of a longer word.
fn places(line: &str, name: &str) -> impl Iterator<Item = usize> {
    line.match_indices(name).map(|(at, _)| at).filter(|at| !line[..*at].ends_with(is_word))
}

/// Returns true if the line has `name` as a whole word.
fn has_word(line: &str, name: &str) -> bool {
    places(line, name).any(|at| !line[at + name.len()..].starts_with(is_word))
}

#[cfg(test)]
mod tests;
