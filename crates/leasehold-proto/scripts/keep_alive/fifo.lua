-- Shows that a client's waiters in a window of the queue are alive. A head with permits at hand shows it by an acquire.
-- KEYS[1] counter string  available permits, may be negative
-- KEYS[2] timeout zset    ids of an expirable semaphore's permits; must not exist
-- KEYS[3] queue   list    waiters, next in the queue first
-- KEYS[4] seen    zset    time of the last call of each waiter, in unix milliseconds
-- ARGV[1] client  string  beginning of the client's wire owners: its id and a colon
-- ARGV[2] from    integer first place of the window, 0 for the head
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of the waiters
-- returns the client's waiters in the window, the length of the queue, the number of the head that can acquire or ''
-- calls get llen pexpire time zadd publish|spublish
-- wire 12.5, 12.4; moves no waiter and adds none
local counter, timeout, queue, seen, client, from = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2])
local publish, channel = ARGV[3], ARGV[4]
if not is_place(from) then return redis.error_reply('LOCKERR keep alive: from must be whole and not negative') end
local left = redis.call('get', counter)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local time, length = redis.call('time'), redis.call('llen', queue)
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local available, found, calls = tonumber(left or 0) > 0, 0, {}
for at, owner in ipairs(window_of(queue, from)) do
  if is_of(client, owner) then
    found = found + 1
    if not available or from + at > 1 then calls[#calls + 1], calls[#calls + 2] = now, owner end
  end
end
if #calls > 0 then redis.call('zadd', seen, unpack(calls)) end
for _, key in ipairs(found > 0 and { queue, seen } or {}) do redis.call('pexpire', key, 10000) end
local head = drop_silent(queue, seen, '', now)
local dropped = length - redis.call('llen', queue)
if dropped > 0 and available and head and not is_of(client, head) then redis.pcall(publish, channel, left) end
return { found, length - dropped, available and number_of(client, head) or '' }
