//! The rules for single Rust files.
//!
//! Invariant: comments and strings break no rule here, except that the rule for Lua reads strings.

use super::source::Source;
use super::tokens::{Kind, Token, begin_with, paths};

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
    let names_one = |parts: &[&str]| {
        parts[0] == "leasehold_store" && parts.iter().any(|part| ["redis", "embedded"].contains(part))
    };
    let named = paths(source.code()).into_iter().filter(|path| names_one(&path.parts));
    named.map(|path| source.finding(path.line, "only connect.rs names a store")).collect()
}

/// Floors, absence 4. Clippy forbids the same functions by their paths. This rule also finds similar names.
fn clocks(source: &Source) -> Vec<String> {
    const NAMES: [&[&str]; 5] = [
        &["Instant", "::", "now"],
        &["SystemTime", "::", "now"],
        &["thread", "::", "sleep"],
        &["tokio", "::", "time"],
        &["tokio", "::", "spawn"],
    ];
    if !source.is_library() || source.path.ends_with("/tokio_runtime.rs") {
        return Vec::new();
    }
    let hits = places(source.code(), |_, rest| NAMES.iter().any(|name| begin_with(rest, name)));
    hits.map(|line| source.finding(line, "only the runtime files keep time, sleep or spawn")).collect()
}

/// Finds names of traces and metrics, which have one folder.
fn observers(source: &Source) -> Vec<String> {
    if !source.is_library() || source.path.starts_with("crates/leasehold/src/observe") {
        return Vec::new();
    }
    let hits = places(source.code(), |before, rest| {
        let is_root = before == Some("use") || (before != Some("::") && begin_with(&rest[1..], &["::"]));
        ["tracing", "metrics"].contains(&rest[0].text) && is_root
    });
    hits.map(|line| source.finding(line, "only leasehold/src/observe names tracing or metrics")).collect()
}

/// Floors, absence 5: no Lua in strings.
fn lua(source: &Source) -> Vec<String> {
    if !source.is_library() {
        return Vec::new();
    }
    let hits =
        source.strings().filter(|(_, line)| line.contains("redis.call(") || line.contains("redis.pcall("));
    hits.map(|(line, _)| source.finding(line, "Lua exists only under leasehold-proto/scripts")).collect()
}

fn unfinished(source: &Source) -> Vec<String> {
    const MARKS: [&[&str]; 4] =
        [&["todo", "!"], &["unimplemented", "!"], &["dbg", "!"], &["#", "[", "ignore"]];
    let is_mark = |rest: &[Token]| MARKS.iter().find(|mark| begin_with(rest, mark));
    let code = source.all_code();
    let hits = (0..code.len()).filter_map(|at| Some((code[at].line, is_mark(&code[at..])?)));
    hits.map(|(line, mark)| source.finding(line, &format!("{} is not for keeping", mark.concat()))).collect()
}

/// Finds sleeps in tests, because a fixed time is too long on one machine and too short on another. A condition that
/// only time makes true is a sleep too. Methods are allowed, because virtual clocks have them.
fn fixed_sleeps(source: &Source) -> Vec<String> {
    const CALLS: [&str; 5] = ["sleep", "sleep_until", "sleep_ms", "time_passes", "park_timeout"];
    let hits = places(source.tests(), |before, rest| {
        let is_call = CALLS.contains(&rest[0].text) && begin_with(&rest[1..], &["("]);
        (is_call && ![Some("."), Some("fn")].contains(&before)) || waits_for_time(rest)
    });
    hits.map(|line| source.finding(line, "wait for a condition (testkit::wait), do not sleep")).collect()
}

/// Returns true for a closure whose whole condition is that some time has passed: `|| started.elapsed() >= span`.
fn waits_for_time(tokens: &[Token]) -> bool {
    if !begin_with(tokens, &["|", "|"]) {
        return false;
    }
    let is_clock = |token: &&Token| token.kind == Kind::Word || token.text == ".";
    let clock = tokens[2..].iter().take_while(is_clock).count();
    clock > 1 && begin_with(&tokens[clock + 1..], &["elapsed", "(", ")", ">"])
}

fn too_long(source: &Source) -> Vec<String> {
    let length = source.length();
    if length <= SPLIT_AT {
        return Vec::new();
    }
    vec![format!("{}: {length} lines of code, split it ({SPLIT_AT} at most)", source.path)]
}

/// Words that the glossary replaces, limited to words without any other meaning. The other libraries of the benchmark
/// have methods with such names.
fn words(source: &Source) -> Vec<String> {
    if ["bench/peers/", "interop/plain/"].iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    const FORBIDDEN: [(&str, &str); 4] = [
        ("heartbeat", "watchdog or renew"),
        ("ttl", "lease or remaining"),
        ("gc", "undo"),
        ("rollback", "undo"),
    ];
    let names = source.all_code().iter().filter(|token| token.kind == Kind::Word);
    let hits = names.flat_map(|name| {
        let parts = name.text.split('_').flat_map(humps);
        let found =
            parts.filter_map(|part| FORBIDDEN.iter().find(|(word, _)| part.eq_ignore_ascii_case(word)));
        found.map(move |words| (name.line, words))
    });
    hits.map(|(line, (word, ours))| source.finding(line, &format!("the project says {ours} and not {word}")))
        .collect()
}

/// Returns the parts of a name in camel case: `Lease` and `Ttl` of `LeaseTtl`.
fn humps(name: &str) -> impl Iterator<Item = &str> {
    let begins =
        |at: usize| name[at..].starts_with(char::is_uppercase) && name[..at].ends_with(char::is_lowercase);
    let mut starts: Vec<usize> =
        name.char_indices().map(|(at, _)| at).filter(|&at| at == 0 || begins(at)).collect();
    starts.push(name.len());
    let ends: Vec<usize> = starts.iter().skip(1).copied().collect();
    starts.into_iter().zip(ends).map(|(from, to)| &name[from..to])
}

/// Each file opens with a sentence about itself, which may be followed by its invariant. A list of its callers would
/// rot, and the public pages of rustdoc are not for readers of the code.
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

/// Returns the lines of the tokens that a condition chooses, by the text of the token before and by all tokens from
/// there on.
fn places<'t, 'a>(
    tokens: &'t [Token<'a>],
    is_chosen: impl Fn(Option<&'a str>, &'t [Token<'a>]) -> bool,
) -> impl Iterator<Item = usize> {
    let before = |at: usize| at.checked_sub(1).map(|at| tokens[at].text);
    let chosen = (0..tokens.len()).filter(move |&at| is_chosen(before(at), &tokens[at..]));
    chosen.map(|at| tokens[at].line)
}

#[cfg(test)]
mod tests;
