//! Random scripts, put together from pieces.

use crate::differential::generator::{BINARY, Generator, key};

/// The possible ends of a script. `r` and `q` are the replies of the last two calls.
const ENDS: &[&str] = &[
    "return r",
    "return {r, q}",
    "return {q, r, 'x', 3.7, -2.9, true, false, 5}",
    "return type(r)",
    "return tostring(r == q)",
    "return r == q",
    "return {ok = 'fine'}",
    "return {err = 'MY error'}",
    "return {err = 'noc\\node'}",
    "return nil",
    "return false",
    "return 1e20",
    "return -1e20",
    "return 0/0",
    "return {1, nil, 3}",
    "return {{1}, {2, {r}}}",
    "return #KEYS + #ARGV",
    "return redis.error_reply('CODE text')",
    "return redis.error_reply('one')",
    "return redis.error_reply('-X y')",
    "return redis.error_reply()",
    "return redis.status_reply('s')",
    "return redis.status_reply(1)",
    "return redis.error_reply({})",
    "return redis.sha1hex(ARGV[1] or 'none')",
    "return redis.sha1hex()",
    "return tonumber(ARGV[1])",
    "return ARGV[1] + 1",
    "return ARGV[1] .. 'x'",
    "return r.err",
    "return r.ok or r",
    "return r[1]",
    "return #r",
    "return undefined_name",
    "global = 1",
    "KEYS[1] = 'x' return KEYS[1]",
    "redis.call = nil",
    "return {pcall(redis.call, 'get')}",
    "return {pcall(function() return redis.call('incr', KEYS[1]) end)}",
    "return {pcall(error, 'boom')}",
    "return {pcall(error, {err = 'E x'})}",
    "error('boom')",
    "error({err = 'OWN table'})",
    "error('a\\nb')",
    "error('x', 0)",
    "local t = nil; return t.x",
    "return 'a' < 1",
    "return nothing()",
    "for i = 1, ARGV[1] do r = i end return r",
    "return string.format('%d', ARGV[1] or 3)",
    "return table.concat(ARGV, ',')",
    "return {unpack(ARGV)}",
    "return math.max(1, 2, #ARGV)",
    "return tostring(1e15) .. tostring(0.1)",
    "assert(r == 'never')",
    "assert(false, 'said')",
    "assert(nil)",
    "return select('#', unpack(KEYS))",
    "return redis.log(1, 'x')",
    "redis.log('x', 'x')",
    "redis.log(9, 'x')",
    "redis.log(1)",
    "return redis.call()",
    "return redis.call({})",
    "return redis.pcall(nil)",
    "return redis.call('nosuch', 1)",
    "return redis.pcall('nosuch', 1)",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('subscribe', 'c')",
    "return redis.pcall('hset', KEYS[1])",
    "return redis.call('HSET', KEYS[1], 'f')",
    "return {redis.call('set', KEYS[1], 1.5), redis.call('get', KEYS[1])}",
    "redis.call('set', KEYS[1], 10) return redis.call('incr', KEYS[1])",
    "redis.call('set', KEYS[1], 1e20) return redis.call('get', KEYS[1])",
    "redis.call('set', KEYS[1], 0.1) return redis.call('get', KEYS[1])",
    "redis.call('set', KEYS[1], -1/0) return redis.call('get', KEYS[1])",
    "return redis.call('echo', 12345678901234567)",
    "return redis.call('echo', true)",
    "return redis.call('ping')",
    "return redis.call('select', 0)",
    "return redis.call('select', 'x')",
    "return struct.pack('Bc0I', 3, 'abc', 7)",
    "return {struct.unpack('Bc0I', struct.pack('Bc0I', 3, 'abc', 7))}",
    "return struct.pack('>I2i4hlLbd', 1, -2, 3, 4, 5, -6, 1.5)",
    "return {struct.unpack('<hHi3s', '\\1\\2\\3\\4\\255\\255\\255ab\\0c')}",
    "return struct.pack('I')",
    "return struct.unpack('I', 'a')",
    "return struct.size('>I2i4!4bi8')",
    "return struct.pack('q', 1)",
    "return string.rep('a', 3) .. ('x'):upper()",
    "return rawset(_G, 'y', 1)",
    "return rawget(_G, 'zzz')",
    "return getmetatable(_G) == nil",
    "return {type(pcall), type(os), type(string), type(cjson)}",
    "return print",
    "return {1, 2, err = 5}",
    "return {ok = 5, 1}",
    "return {double = 3.5}",
    "return function() end",
    "return coroutine.wrap(function() return redis.call('get', KEYS[1]) end)()",
    "return {xpcall(function() error('in') end, function(e) return 'handled ' .. tostring(e) end)}",
    "return {xpcall(function() redis.call('nosuch') end, function(e) return e.err end)}",
    "return loadstring('return 1 + 1')()",
    "local ok, e = pcall(redis.call, 'lpush', KEYS[1]) return {tostring(ok), type(e), tostring(e)}",
    "return if",
    "return 1 foo",
    "x = = 2",
    "end",
    "do return r end",
    "return ...",
    "return 'unfinished",
    "goto x",
    "return tostring(nil) .. tostring(true)",
    "return -0",
    "return 2^53",
    "return 2^63",
    "return -(2^63)",
    "return math.floor(-3.5)",
    "return 7 % -3",
    "return tonumber('0x10')",
    "return tonumber('z', 36)",
    "return tonumber(' 12 ')",
    "return tonumber('1e')",
    "return redis.call('zadd', KEYS[1], 'inf', 'm')",
    "return redis.REDIS_VERSION",
    "return redis.LOG_WARNING",
    "return redis.setresp(2)",
    "return redis.replicate_commands()",
    "return {err = ''}",
    "return {err = 'a\\r\\n'}",
    "return redis.error_reply('')",
    "return redis.error_reply('A b\\r\\n')",
    "return redis.error_reply('-')",
    "return redis.error_reply(' x')",
    "return string.format('%.0f', 2^53 + 1)",
    "return string.format('%.0f %.0f %.0f', -0.5, 1e20, 922337203685477)",
    "return string.format('%.0f', ARGV[1])",
    "return string.format('%s%q', KEYS[1], ARGV[1])",
    "return {KEYS[1]:byte(1, -1)}",
    "return {#ARGV[1], ARGV[1]:reverse(), KEYS[1] .. ARGV[1], KEYS[1] == ARGV[1]}",
    "return {['x'] = 1, ARGV[1], {KEYS[1]}}",
    "return redis.call('echo', KEYS[1])",
    "redis.call('publish', 'c:1', ARGV[1]) return redis.call('spublish', 's:1', KEYS[1])",
    "redis.call('hset', 'k:h0', ARGV[1], KEYS[1]) return redis.call('hgetall', 'k:h0')",
    "redis.call('zadd', 'k:z0', 1, ARGV[1]) return redis.call('zrange', 'k:z0', -2, -1, 'withscores')",
    "redis.call('rpush', 'k:l0', ARGV[1]) return redis.call('lpos', 'k:l0', ARGV[1])",
    "return redis.sha1hex(KEYS[1])",
    "return struct.unpack('Bc0', struct.pack('Bc0', #KEYS[1], KEYS[1]))",
    "local t = redis.call('time') return {t[1], math.floor(t[2] / 1000), #t}",
    "local t = redis.call('time') return redis.call('pexpireat', KEYS[1], t[1] * 1000 + math.floor(t[2] / 1000) + 20)",
    "return redis.call('time', 1)",
    "return redis.call('INFO', 'SERVER'):sub(1, 32)",
    "return {redis.call('info', 'server'):match('redis_version:(%S+)\\r\\n')}",
    "return redis.call('info', 'server'):match('uptime_in_seconds:(%d+)\\r\\n')",
    "return tonumber(redis.call('info'):match('uptime_in_seconds:(%d+)'))",
    "return redis.call('info', 'nosuch', 'server'):match('uptime_in_days:(%d+)')",
    "return redis.call('info', 'nosuch')",
];

const JOINTS: &[&str] = &[
    " ",
    "\n",
    " if r == false then q = 1 end ",
    " q = type(q) == 'table' and #q or tostring(q)\n",
    " q = r ",
];

/// Returns an EVAL of a random script.
pub(crate) fn script(generator: &mut Generator) -> Vec<Vec<u8>> {
    let mut text = String::from("local r, q\n");
    let group = ['h', 'z', 'l', 's'][generator.random.below(4)];
    let key = key(group, &mut generator.random);
    let argument = match generator.random.below(8) {
        0 => generator.random.pick(BINARY),
        _ => generator.random.pick(&["1", "5", "abc", "-3", "", "2.5"]).as_bytes(),
    };
    for _ in 0..generator.random.below(4) {
        text += generator.random.pick(JOINTS);
        let result = generator.random.pick(&["r", "q"]);
        let verb = generator.random.pick(&["call", "pcall", "call"]);
        text += &format!("{result} = redis.{verb}({})", literals(&generator.plain(), &key));
    }
    text += generator.random.pick(JOINTS);
    text += generator.random.pick(ENDS);
    let words = [b"EVAL", text.as_bytes(), b"1", &key, argument];
    words.map(<[u8]>::to_vec).to_vec()
}

/// Returns the words of a command as Lua literals: numbers sometimes bare, this key as KEYS[1].
fn literals(words: &[Vec<u8>], key: &[u8]) -> String {
    let literal = |word: &Vec<u8>| {
        let text = String::from_utf8_lossy(word).into_owned();
        match text.parse::<i32>() {
            _ if word == key => "KEYS[1]".to_owned(),
            Ok(number) if number % 2 == 0 && number.to_string() == text => text,
            _ => format!("'{}'", quote(word)),
        }
    };
    words.iter().map(literal).collect::<Vec<_>>().join(", ")
}

fn quote(word: &[u8]) -> String {
    word.iter()
        .map(|&byte| match byte {
            b' '..=b'~' if byte != b'\'' && byte != b'\\' => char::from(byte).to_string(),
            _ => format!("\\{byte:03}"),
        })
        .collect()
}
