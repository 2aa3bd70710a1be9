//! All data of a server, in a form that can be compared.

use leasehold_store::embedded::{Entry, Value};

use crate::differential::real::Answer;

/// The data at some time.
pub(crate) struct State {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    pub(crate) entries: Vec<Plain>,
}

/// A key and its value, as text: `[key, type, expiry, elements...]`.
pub(crate) type Plain = Vec<Vec<u8>>;

const SCRIPT: &str = "
local all = {}
local keys = redis.call('keys', '*')
for _, key in ipairs(keys) do
  local kind = redis.call('type', key).ok
  local one = {key, kind, string.format('%.0f', redis.call('pexpiretime', key))}
  local content
  if kind == 'string' then content = {redis.call('get', key)}
  elseif kind == 'hash' then content = redis.call('hgetall', key)
  elseif kind == 'list' then content = redis.call('lrange', key, 0, -1)
  elseif kind == 'zset' then content = redis.call('zrange', key, 0, -1, 'WITHSCORES')
  else content = {} end
  for _, element in ipairs(content) do table.insert(one, element) end
  table.insert(all, one)
end
return all";

pub(crate) fn command() -> Vec<Vec<u8>> {
    ["EVAL", SCRIPT, "0"].iter().map(|word| word.as_bytes().to_vec()).collect()
}

pub(crate) fn read(answer: &Answer) -> State {
    let mut rest = answer.reply.as_slice();
    let count = head(&mut rest);
    let mut entries: Vec<Plain> = (0..count)
        .map(|_| {
            let words = head(&mut rest);
            (0..words).map(|_| bulk(&mut rest)).collect()
        })
        .collect();
    entries.sort_unstable();
    State { from_ms: answer.from_ms, to_ms: answer.to_ms, entries }
}

fn head(rest: &mut &[u8]) -> usize {
    let end = rest.iter().position(|&byte| byte == b'\n').unwrap();
    let line = std::str::from_utf8(&rest[1..end - 1]).unwrap();
    let number =
        line.parse().unwrap_or_else(|_| panic!("the dump failed: {}", String::from_utf8_lossy(rest)));
    *rest = &rest[end + 1..];
    number
}

fn bulk(rest: &mut &[u8]) -> Vec<u8> {
    let length = head(rest);
    let bytes = rest[..length].to_vec();
    *rest = &rest[length + 2..];
    bytes
}

/// Converts an entry of the embedded server to the same form. `score` writes a score as replies do.
pub(crate) fn plain(entry: &Entry, score: impl Fn(f64) -> Vec<u8>) -> Plain {
    let expiry = entry.expires_at_ms.map_or_else(|| "-1".to_owned(), |at| format!("{:.0}", at as f64));
    let mut all = vec![entry.key.clone(), entry.value.type_name().as_bytes().to_vec(), expiry.into_bytes()];
    match &entry.value {
        Value::String(text) => all.push(text.clone()),
        Value::List(list) => all.extend(list.iter().cloned()),
        Value::Hash(fields) => {
            all.extend(fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]));
        }
        Value::SortedSet(set) => all.extend(set.iter().flat_map(|(member, at)| [member.to_vec(), score(at)])),
    }
    all
}

/// Returns the commands that make an entry.
pub(crate) fn restore(entry: &Plain) -> Vec<Vec<Vec<u8>>> {
    let word = |text: &str| text.as_bytes().to_vec();
    let key = entry[0].clone();
    let content = entry[3..].to_vec();
    let one = |name: &str, content: Vec<Vec<u8>>| [vec![word(name), key.clone()], content].concat();
    let mut commands = match entry[1].as_slice() {
        b"string" => vec![one("SET", content)],
        b"list" => vec![one("RPUSH", content)],
        b"hash" => vec![one("HSET", content)],
        _ => content.chunks(2).map(|pair| one("ZADD", vec![pair[1].clone(), pair[0].clone()])).collect(),
    };
    if entry[2] != b"-1" {
        commands.push(one("PEXPIREAT", vec![entry[2].clone()]));
    }
    commands
}
