//! Checks every script's header against the body below it. The body uses each declared input, and the header declares
//! each used input.
//!
//! The tests read the texts and need no server.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_proto::{Batch, BatchPart, CallArgs, ClientId, Lease, WireOwner, recipe};

/// The most lines that a script may have.
const LINES_MAX: usize = 45;

/// A script's text and its path.
struct Script {
    path: PathBuf,
    text: String,
}

impl Script {
    /// Returns all scripts of the crate.
    fn all() -> Vec<Self> {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")];
        let mut scripts = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    scripts.push(Self { path, text });
                }
            }
        }
        scripts.sort_by(|one, other| one.path.cmp(&other.path));
        scripts
    }

    fn at(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Returns true if the file only has functions for other scripts of its folder and is put before each of them.
    fn is_library(&self) -> bool {
        const LIBRARIES: [&str; 19] = [
            "channels.lua",
            "check.lua",
            "deadline.lua",
            "each.lua",
            "ended.lua",
            "enter.lua",
            "hurry.lua",
            "ids.lua",
            "mark.lua",
            "marker.lua",
            "other.lua",
            "parts.lua",
            "purge.lua",
            "queue.lua",
            "returns.lua",
            "replies.lua",
            "row.lua",
            "rows.lua",
            "window.lua",
        ];
        self.path.file_name().is_some_and(|name| LIBRARIES.iter().any(|library| name == *library))
    }

    /// Returns true if the script is about the server or its user, and so reads no key.
    fn is_about_the_server(&self) -> bool {
        ["check/subscribe.lua", "check/run_id.lua"].iter().any(|path| self.path.ends_with(path))
    }

    /// Returns the scripts that are sent as they are, or behind their folder's library.
    fn sent() -> Vec<Self> {
        Self::all().into_iter().filter(|script| !script.is_library()).collect()
    }

    /// Returns the comment lines at the top, without their dashes.
    fn header(&self) -> Vec<&str> {
        let lines = self.text.lines();
        lines.map_while(|line| line.strip_prefix("-- ")).collect()
    }

    /// Returns everything below the header, without comments.
    fn body(&self) -> String {
        let lines = self.text.lines().skip(self.header().len());
        let code = lines.map(|line| line.split("--").next().unwrap());
        code.collect::<Vec<_>>().join("\n")
    }

    /// Returns the text after this word in its header line.
    fn header_value(&self, word: &str) -> Option<&str> {
        self.header().into_iter().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
    }

    /// Returns the declared inputs of KEYS or ARGV: number, name, type, meaning.
    fn inputs(&self, table: &str) -> Vec<(usize, String, String, String)> {
        let lines = self.header().into_iter().filter(|line| line.starts_with(&format!("{table}[")));
        lines
            .map(|line| {
                let mut words = line.split_whitespace();
                let slot = words.next().unwrap();
                let number = slot.strip_prefix(table).unwrap().trim_matches(['[', ']']).parse().unwrap();
                let [name, kind] =
                    [words.next(), words.next()].map(|word| word.unwrap_or_default().to_owned());
                (number, name, kind, words.collect::<Vec<_>>().join(" "))
            })
            .collect()
    }

    /// Returns the commands that the body calls, as the header writes them.
    fn called(&self) -> BTreeSet<String> {
        let body = self.body();
        let calls = body.match_indices("redis.call(").chain(body.match_indices("redis.pcall("));
        calls
            .map(|(at, call)| {
                let first = body[at + call.len()..].split([',', ')']).next().unwrap().trim();
                match first.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
                    Some(command) => command.to_owned(),
                    // The command to publish is the only command that is an argument.
                    None if first == "publish" => "publish|spublish".to_owned(),
                    None => panic!("{}: calls something by the name of {first}", self.at()),
                }
            })
            .collect()
    }

    /// Returns the numbers `n` of each `KEYS[n]` or `ARGV[n]` in the body.
    fn uses(&self, table: &str) -> BTreeSet<usize> {
        let body = self.body();
        let slots = body.match_indices(table).filter_map(|(at, _)| {
            let index = body[at + table.len()..].strip_prefix('[')?.split(']').next()?;
            let number = index.parse();
            Some(number.unwrap_or_else(|_| panic!("{}: the index {index} is not a number", self.at())))
        });
        slots.collect()
    }

    /// Returns the names of every `local a, b = x, y`, each with its value.
    fn locals(&self) -> Vec<(String, String)> {
        let body = self.body();
        let bindings = body.lines().filter_map(|line| line.trim().strip_prefix("local ")?.split_once(" = "));
        bindings
            .flat_map(|(names, values)| {
                let names: Vec<_> = names.split(", ").map(str::to_owned).collect();
                let values: Vec<_> = values.split(", ").map(str::to_owned).collect();
                names.into_iter().zip(values)
            })
            .collect()
    }
}

/// Returns the source of an acquire behind the check of its channel.
fn checked_acquire() -> String {
    let name = leasehold_proto::Name::new("lock").unwrap();
    let subject = leasehold_proto::engine::Subject::new(&name, &recipe::reentrant::REENTRANT);
    let owner = WireOwner::new(ClientId::from_random([0; 16]), 1);
    let args = CallArgs::new(&subject, owner, Lease::clamped(Duration::from_secs(30)));
    let call = (subject.recipe.acquire)(&args).woken_by(&subject, owner);
    recipe::rights::checked(&call, "PUBLISH", "SUBSCRIBE").unwrap().source
}

#[test]
fn there_are_scripts_and_each_is_one_that_a_recipe_sends() {
    // A script of the application contains only the part of this crate that runs before it.
    let with_check = recipe::fence::with_check("").source();
    let checked = checked_acquire();
    let mut sent: Vec<&str> = recipe::scripts()
        .chain(leasehold_proto::operate::scripts())
        .map(leasehold_proto::Script::source)
        .collect();
    sent.extend([with_check, &*checked, recipe::rights::may_subscribe("").script().source()]);
    sent.push(recipe::one_server::run_id([""]).script().source());
    sent.push(recipe::foreign::kind(&leasehold_proto::Name::new("job").unwrap()).script().source());
    let part = |script| BatchPart { script, keys: 1, args: 2, shared: 1 };
    let (first, last) = (recipe::scripts().next().unwrap(), recipe::scripts().last());
    let batch = Batch::of(part(first), last.map(part));
    sent.push(batch.source());
    let scripts = Script::all();
    assert!(!scripts.is_empty());
    for script in &scripts {
        let senders = sent.iter().filter(|source| source.contains(script.text.as_str())).count();
        assert!(senders > 0, "{}: no recipe sends it", script.at());
    }
    for source in sent {
        let parts: Vec<&str> =
            scripts.iter().map(|script| &*script.text).filter(|text| source.contains(text)).collect();
        let rest = parts.iter().fold(source.to_owned(), |rest, part| rest.replacen(part, "", 1));
        // The lines that a batch has for its numbers of inputs say nothing else.
        assert!(rest.lines().all(is_of_inputs), "this is sent, and is not all in files: {rest}");
    }
}

/// Returns true for a line of a batch that only moves inputs, chooses a script or runs it.
fn is_of_inputs(line: &str) -> bool {
    let begins = ["local keys", "local arg = ", "keys", "args", "key, arg = ", "ended, reply = pcall(run"];
    let moves = begins.iter().any(|begin| line.starts_with(begin)) && !line.contains("redis");
    moves || ["if byte(order, row) == 50 then", "else", "end", ""].contains(&line)
}

#[test]
fn every_header_has_all_required_parts() {
    for script in Script::all() {
        let header = script.header();
        let purpose = header.first().unwrap_or_else(|| panic!("{}: no header", script.at()));
        assert!(
            purpose.starts_with(char::is_uppercase) && purpose.contains(' ') && purpose.ends_with('.'),
            "{}: begins with a sentence",
            script.at()
        );
        for word in ["returns", "calls", "wire"] {
            let said = script.header_value(word).unwrap_or_default();
            assert!(!said.trim().is_empty(), "{}: says nothing of `{word}`", script.at());
        }
        assert!(
            script.header_value("wire").unwrap().contains(|c: char| c.is_ascii_digit()),
            "{}: names a section",
            script.at()
        );
    }
}

#[test]
fn every_input_is_declared_with_name_type_and_meaning_in_order() {
    for script in Script::all() {
        let mut names = BTreeSet::new();
        for table in ["KEYS", "ARGV"] {
            for (index, (number, name, kind, meaning)) in script.inputs(table).into_iter().enumerate() {
                assert_eq!(number, index + 1, "{}: {table} in order, without gaps", script.at());
                assert!(
                    ["any", "hash", "string", "integer", "list", "zset", "bytes"].contains(&kind.as_str()),
                    "{}: {name} {kind}",
                    script.at()
                );
                assert!(!meaning.is_empty(), "{}: {name} means nothing", script.at());
                assert!(names.insert(name.clone()), "{}: {name} twice", script.at());
            }
        }
        let has_no_key = script.is_library() || script.is_about_the_server();
        assert_eq!(script.inputs("KEYS").is_empty(), has_no_key, "{}: is about a key", script.at());
    }
}

#[test]
fn declared_inputs_are_used_and_used_ones_are_declared() {
    for script in Script::sent() {
        for table in ["KEYS", "ARGV"] {
            let declared: BTreeSet<usize> = script.inputs(table).into_iter().map(|input| input.0).collect();
            assert_eq!(script.uses(table), declared, "{}: {table}", script.at());
        }
    }
}

#[test]
fn every_input_is_bound_to_a_local_of_its_declared_name() {
    for script in Script::all() {
        let locals = script.locals();
        for table in ["KEYS", "ARGV"] {
            for (number, name, ..) in script.inputs(table) {
                let slot = format!("{table}[{number}]");
                let is_bound = locals.iter().any(|(local, value)| {
                    let forms = [slot.clone(), format!("tonumber({slot})"), format!("{slot} == '1'")];
                    *local == name && forms.contains(value)
                });
                assert!(is_bound, "{}: {name} is not bound to {slot}: {locals:?}", script.at());
            }
        }
    }
}

#[test]
fn the_declared_calls_are_the_calls() {
    for script in Script::all() {
        let declared: BTreeSet<String> =
            script.header_value("calls").unwrap().split_whitespace().map(str::to_owned).collect();
        let declared = if declared.contains("nothing") { BTreeSet::new() } else { declared };
        assert_eq!(script.called(), declared, "{}", script.at());
    }
}

#[test]
fn every_script_is_short() {
    for script in Script::all() {
        let lines = script.text.lines().count();
        assert!(lines <= LINES_MAX, "{}: {lines} lines, at most {LINES_MAX}", script.at());
    }
}

#[test]
fn a_script_first_reads_its_key_with_a_command_of_its_type() {
    // The server then refuses a key of another type before anything is written.
    for script in Script::sent().into_iter().filter(|script| !script.is_about_the_server()) {
        // A look that may fail says so to the script, which returns the error.
        let body = script.body().replace("redis.pcall('", "redis.call('");
        let mut calls = body.split("redis.call('").skip(1).map(|call| call.split('\'').next().unwrap());
        // A key that is not there has no type, so a script may first ask whether it is.
        let first = calls.find(|call| *call != "pttl").unwrap();
        let kinds = script.inputs("KEYS");
        let looks: &[&str] = match kinds[0].2.as_str() {
            "hash" => &["hexists", "hget", "hlen"],
            "string" => &["get", "strlen"],
            "zset" => &["zscore", "zcard"],
            "list" => &["llen"],
            "any" => &["type"],
            other => panic!("{}: no look is known for {other}", script.at()),
        };
        assert!(looks.contains(&first), "{}: begins with {first}", script.at());
    }
}

#[test]
fn no_script_that_may_join_a_batch_changes_its_inputs() {
    // The rows of a batch share the tables of inputs. The part before a script of the application and the check of channels
    // travel alone, and take their own inputs away.
    let is_alone = |script: &Script| {
        ["fence/mark.lua", "check/channels.lua"].iter().any(|path| script.path.ends_with(path))
    };
    for script in Script::all().into_iter().filter(|script| !is_alone(script)) {
        for table in ["KEYS", "ARGV"] {
            let removes =
                [format!("table.remove({table}"), format!("table.insert({table}"), format!("rawset({table}")];
            let body = script.body();
            assert!(!removes.iter().any(|change| body.contains(change)), "{}: changes {table}", script.at());
            let assigned =
                body.lines().filter_map(|line| line.trim_start().split_once(" = ")).map(|(to, _)| to);
            let changes = |to: &str| to.split(", ").any(|place| place.starts_with(&format!("{table}[")));
            assert!(!assigned.into_iter().any(changes), "{}: changes {table}", script.at());
        }
    }
}

#[test]
fn no_script_uses_randomness_or_undeclared_keys() {
    for script in Script::all() {
        let body = script.body();
        for word in ["math.random", "'keys'", "'scan'", "loadstring", " pcall("] {
            assert!(!body.contains(word), "{}: has {word}", script.at());
        }
    }
}
