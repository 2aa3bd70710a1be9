//! Calls as commands, replies as values.
//!
//! Invariant: names and owners travel as KEYS and ARGV only.

use leasehold_proto::recipe::rights::Checked;
use leasehold_proto::{Applied, Call, Reply, StoreErrorKind};
use redis::{Cmd, RedisError, ServerError, ServerErrorKind, Value};

use super::error::Failure;

/// Encodes the call with its script's hash.
pub(super) fn evalsha(call: &Call) -> Cmd {
    command("EVALSHA", call.script().sha1(), call, call.args())
}

/// Encodes the call with its script's text, which the server then caches.
pub(super) fn eval(call: &Call) -> Cmd {
    command("EVAL", call.script().source(), call, call.args())
}

/// Encodes the call behind a check of its channels.
pub(super) fn eval_checked(call: &Call, checked: &Checked) -> Cmd {
    command("EVAL", &checked.source, call, &checked.args)
}

fn command(name: &str, script: &str, call: &Call, args: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(call.keys().len());
    for key in call.keys() {
        command.arg(&**key);
    }
    for argument in args {
        command.arg(argument);
    }
    command
}

/// Returns true if the server does not know the script of an EVALSHA.
pub(super) fn is_unknown_script(answer: &Result<Value, RedisError>) -> bool {
    let Ok(Value::ServerError(error)) = answer else {
        return false;
    };
    error.kind() == Some(ServerErrorKind::NoScript)
}

/// Converts the reply of a script.
pub(super) fn read(value: Value) -> Result<Reply, Failure> {
    match value {
        Value::Nil => Ok(Reply::Nil),
        Value::Int(number) => Ok(Reply::Int(number)),
        Value::BulkString(bytes) => Ok(Reply::Text(bytes)),
        Value::SimpleString(text) => Ok(Reply::Text(text.into_bytes())),
        Value::Okay => Ok(Reply::Text(b"OK".to_vec())),
        Value::Array(values) => Ok(Reply::Array(values.into_iter().map(read).collect::<Result<_, _>>()?)),
        Value::ServerError(error) => Err(server_error(&error)),
        _ => Err(malformed()),
    }
}

/// Returns the failure that an error reply means.
pub(super) fn server_error(error: &ServerError) -> Failure {
    match error.details() {
        Some(details) => Failure::server_error(&format!("{} {details}", error.code())),
        None => Failure::server_error(error.code()),
    }
}

/// Returns the failure for a reply that RESP2 or the script cannot give. The failure does not keep the reply's text.
pub(super) const fn malformed() -> Failure {
    Failure::new(StoreErrorKind::Malformed, Applied::Unknown)
}
