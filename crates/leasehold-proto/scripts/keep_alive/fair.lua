-- Shows that a client's waiters in a window of the queue are alive. The head of a free lock shows it by an acquire.
-- KEYS[1] lock    hash    the lock; field: wire owner, value: hold count
-- KEYS[2] queue   list    waiters, next in the queue first
-- KEYS[3] timeout zset    deadline of each waiter by Redisson's rules, in unix milliseconds
-- KEYS[4] seen    zset    time of the last call of each waiter of leasehold, in unix milliseconds
-- ARGV[1] client  string  beginning of the client's wire owners: its id and a colon
-- ARGV[2] from    integer first place of the window, 0 for the head
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  prefix of the channel of a waiter; its owner follows
-- ARGV[5] message string  the payload, an ASCII decimal
-- ARGV[6] numsub  string  NUMSUB, SHARDNUMSUB for sharded channels, or empty where one node does not know all listeners
-- returns the client's waiters in the window, the length of the queue, the number of the head that can acquire or ''
-- calls hlen llen zadd zcard
-- wire 6.9, 6.1, 6.2; moves no waiter and adds none
local lock, queue, timeout, seen, client, from = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2])
local publish, channel, message, numsub = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if not is_place(from) then return redis.error_reply('LOCKERR keep alive: from must be whole and not negative') end
local holders = redis.call('hlen', lock)
if holders > 1 or redis.call('zcard', timeout) < 0 then
  return redis.error_reply('WRONGTYPE the name is a read-write lock or a group of values')
end
local q = { queue = queue, timeout = timeout, seen = seen, now = now_ms() }
q.publish, q.channel, q.message, q.numsub = publish, channel, message, numsub
local free, redisson, found, dues, calls = holders == 0, has_redisson_waiters(q), 0, {}, {}
local waits = waits_before(q, from, redisson)
for at, owner in ipairs(window_of(queue, from)) do
  local mine = is_of(client, owner)
  found = found + (mine and 1 or 0)
  if mine and not (free and from + at == 1) then
    dues[#dues + 1], calls[#calls + 1] = deadline(q, owner, from + at - 1, waits.sum), q.now
    dues[#dues + 1], calls[#calls + 1] = owner, owner
  elseif redisson then
    add_wait(q, waits, owner)
  end
end
if #calls > 0 then
  redis.call('zadd', timeout, unpack(dues))
  redis.call('zadd', seen, unpack(calls))
end
local refused = found > 0 and expire(q, redisson)
local head, changed = purge(q)
if free and head and not is_of(client, head) then hurry(q, head, changed) end
keep(q)
if type(refused) == 'table' then return refused end
return { found, redis.call('llen', queue), free and number_of(client, head) or '' }
