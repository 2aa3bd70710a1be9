-- Acquires a free lock for the head of the queue. Else queues the owner, or records that it still waits.
-- KEYS[1] lock     hash    the lock; field: wire owner, value: hold count
-- KEYS[2] queue    list    waiters, next in the queue first
-- KEYS[3] timeout  zset    deadline of each waiter by Redisson's rules, in unix milliseconds
-- KEYS[4] seen     zset    time of the last call of each waiter of leasehold, in unix milliseconds
-- ARGV[1] lease_ms integer lease of the key from now
-- ARGV[2] owner    string  wire owner, unique per acquisition
-- ARGV[3] once     integer 1 when the owner does not wait and must not be queued
-- ARGV[4] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel  string  prefix of the channel of a waiter; its owner follows
-- ARGV[6] message  string  the payload, an ASCII decimal
-- ARGV[7] numsub  string  NUMSUB, SHARDNUMSUB for sharded channels, or empty where one node does not know all listeners
-- returns nil on success, else the PTTL of another owner's hold (-1: no expiry), or the head's time to take a free lock
-- calls exists hdel hexists hlen hset pexpire pttl
-- wire 6.2, 6.3, 4.5; absolute deadlines; a head that does not take a free lock is passed by
local lock, queue, timeout, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease_ms, owner, once = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local publish, channel, message, numsub = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
local mine = redis.call('hexists', lock, owner) == 1
if not mine and redis.call('hlen', lock) > 1 then
  return redis.error_reply('WRONGTYPE the name is a read-write lock or a group of values')
end
local q = { queue = queue, timeout = timeout, seen = seen, now = now_ms() }
q.publish, q.channel, q.message, q.numsub = publish, channel, message, numsub
local head, changed = purge(q)
local free, due = redis.call('exists', lock) == 0, 0
if mine or (free and (not head or head == owner)) then
  if head then leave(q, owner) keep(q) end
  if free then redis.call('hset', lock, owner, '1') end
  local lives = free and -2 or redis.call('pttl', lock)
  local expires = lives < lease_ms and redis.pcall('pexpire', lock, ARGV[1])
  if type(expires) == 'table' and free then redis.call('hdel', lock, owner) end
  return type(expires) == 'table' and expires or nil
end
if free then due, changed = hurry(q, head, changed) end
local refused = once ~= 1 and enter(q, owner)
if changed and once == 1 then keep(q) end
return refused or (free and math.max(1, due - q.now) or redis.call('pttl', lock))
