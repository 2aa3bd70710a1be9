//! EVAL, EVALSHA and SCRIPT.
//!
//! Invariant: a script that was run or loaded is known by its hash until it is forgotten.

use std::sync::Arc;

use super::super::database::Database;
use super::super::frame::Frame;
use super::super::lua;
use super::{Answer, Args, Command, Deed, Fault, NO_SCRIPT, integer, is, unknown_word};

pub(super) const COMMANDS: &[Command] = &[
    script("eval", -3, NO_SCRIPT, eval),
    script("evalsha", -3, NO_SCRIPT, evalsha),
    Command::of_words("script", NO_SCRIPT, SCRIPT, Deed::Script(manage)),
];

const SCRIPT: &[(&str, i8)] = &[("load", 3), ("exists", -3), ("flush", -2), ("kill", 2)];

const fn script(
    name: &'static str,
    arity: i8,
    traits: u8,
    deed: fn(&mut Database, Args<'_>) -> Answer,
) -> Command {
    Command { name, arity, traits, deed: Deed::Script(deed), words: &[] }
}

fn eval(database: &mut Database, args: Args<'_>) -> Answer {
    let keys = key_count(args)?;
    let sha1 = hash(&args[1]);
    if !database.scripts.contains_key(&sha1) {
        learn(database, &sha1, &args[1])?;
    }
    Ok(run(database, &sha1, &args[3..], keys))
}

fn evalsha(database: &mut Database, args: Args<'_>) -> Answer {
    let keys = key_count(args)?;
    let sha1 = String::from_utf8_lossy(&args[1]).to_ascii_lowercase();
    if !database.scripts.contains_key(&sha1) {
        return Err(Fault::new("NOSCRIPT No matching script. Please use EVAL."));
    }
    Ok(run(database, &sha1, &args[3..], keys))
}

fn key_count(args: Args<'_>) -> Result<usize, Fault> {
    let keys = integer(&args[2])?;
    let given = args.len() - 3;
    match usize::try_from(keys) {
        Ok(keys) if keys > given => {
            Err(Fault::new("ERR Number of keys can't be greater than number of args"))
        }
        Ok(keys) => Ok(keys),
        Err(_) => Err(Fault::new("ERR Number of keys can't be negative")),
    }
}

pub(in crate::embedded) fn hash(source: &[u8]) -> String {
    sha1_smol::Sha1::from(source).hexdigest()
}

fn learn(database: &mut Database, sha1: &str, source: &[u8]) -> Result<(), Fault> {
    lua::check(sha1, source)?;
    database.scripts.insert(sha1.to_owned(), Arc::from(source));
    Ok(())
}

fn run(database: &mut Database, sha1: &str, words: Args<'_>, keys: usize) -> Frame {
    let Some(source) = database.scripts.get(sha1).cloned() else {
        return Frame::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned());
    };
    let (keys, args) = words.split_at(keys);
    let bytes = Vec::as_slice;
    lua::run(&mut database.machine, sha1, &source, keys.iter().map(bytes), args.iter().map(bytes))
}

fn manage(database: &mut Database, args: Args<'_>) -> Answer {
    match &args[1..] {
        [word, source] if is(word, "load") => {
            let sha1 = hash(source);
            learn(database, &sha1, source)?;
            Ok(Frame::bulk(sha1))
        }
        [word, hashes @ ..] if is(word, "exists") => {
            let known = |sha1: &Vec<u8>| {
                let sha1 = String::from_utf8_lossy(sha1).to_ascii_lowercase();
                Frame::Int(database.scripts.contains_key(&sha1).into())
            };
            Ok(Frame::Array(hashes.iter().map(known).collect()))
        }
        [word, how @ ..] if is(word, "flush") => {
            match how {
                [] => {}
                [how] if is(how, "sync") || is(how, "async") => {}
                _ => return Err(Fault::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
            }
            database.forget_scripts();
            Ok(Frame::ok())
        }
        [_] => Err(Fault::new("NOTBUSY No scripts in execution right now.")),
        _ => Err(unknown_word(args)),
    }
}
