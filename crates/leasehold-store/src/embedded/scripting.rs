//! EVAL, EVALSHA and SCRIPT.
//!
//! Invariant: a script that was run or loaded is known by its hash until it is forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::command::{Answer, Args, ScriptCommand, integer, is, unknown_word};
use super::command_context::CommandContext;
use super::fault::Fault;
use super::frame::Frame;
use super::lua;
use super::script_hash::{hash, remembered_hash};

/// Sources by their hash in lower case.
pub(super) type Scripts = BTreeMap<String, Arc<[u8]>>;

pub(super) fn execute(
    context: &mut CommandContext,
    scripts: &mut Scripts,
    command: ScriptCommand,
    args: Args<'_>,
) -> Answer {
    match command {
        ScriptCommand::Eval => eval(context, scripts, args),
        ScriptCommand::EvalSha => evalsha(context, scripts, args),
        ScriptCommand::Script => manage(scripts, args),
    }
}

fn eval(context: &mut CommandContext, scripts: &mut Scripts, args: Args<'_>) -> Answer {
    let keys = key_count(args)?;
    let sha1 = remembered_hash(&args[1]);
    if !scripts.contains_key(&sha1) {
        learn(scripts, &sha1, &args[1])?;
    }
    Ok(run(context, scripts, &sha1, &args[3..], keys))
}

fn evalsha(context: &mut CommandContext, scripts: &Scripts, args: Args<'_>) -> Answer {
    let keys = key_count(args)?;
    let sha1 = String::from_utf8_lossy(&args[1]).to_ascii_lowercase();
    if !scripts.contains_key(&sha1) {
        return Err(Fault::new("NOSCRIPT No matching script. Please use EVAL."));
    }
    Ok(run(context, scripts, &sha1, &args[3..], keys))
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

fn learn(scripts: &mut Scripts, sha1: &str, source: &[u8]) -> Result<(), Fault> {
    lua::check(sha1, source)?;
    scripts.insert(sha1.to_owned(), Arc::from(source));
    Ok(())
}

fn run(context: &mut CommandContext, scripts: &Scripts, sha1: &str, words: Args<'_>, keys: usize) -> Frame {
    let Some(source) = scripts.get(sha1).cloned() else {
        return Frame::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned());
    };
    let (keys, args) = words.split_at(keys);
    let bytes = Vec::as_slice;
    lua::run(context, sha1, &source, keys.iter().map(bytes), args.iter().map(bytes))
}

fn manage(scripts: &mut Scripts, args: Args<'_>) -> Answer {
    match &args[1..] {
        [word, source] if is(word, "load") => {
            let sha1 = hash(source);
            learn(scripts, &sha1, source)?;
            Ok(Frame::bulk(sha1))
        }
        [word, hashes @ ..] if is(word, "exists") => {
            let known = |sha1: &Vec<u8>| {
                let sha1 = String::from_utf8_lossy(sha1).to_ascii_lowercase();
                Frame::Int(scripts.contains_key(&sha1).into())
            };
            Ok(Frame::Array(hashes.iter().map(known).collect()))
        }
        [word, how @ ..] if is(word, "flush") => {
            match how {
                [] => {}
                [how] if is(how, "sync") || is(how, "async") => {}
                _ => return Err(Fault::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
            }
            scripts.clear();
            Ok(Frame::ok())
        }
        [_] => Err(Fault::new("NOTBUSY No scripts in execution right now.")),
        _ => Err(unknown_word(args)),
    }
}
