-- Reads what the server has under one name, whichever kind it is, and changes nothing.
-- KEYS[1] lock     any     the object
-- KEYS[2] readers  string  prefix of the lease keys of readers
-- KEYS[3] writer   string  owner of the waiting writer that yielding readers let go first
-- KEYS[4] upgrade  string  the waiting upgrade: 'reader writer', two wire owners
-- KEYS[5] token    string  the fencing token of the last grant
-- KEYS[6] queue    list    waiters of a fair lock, next in the queue first
-- KEYS[7] timeout  zset    deadline of each of them by Redisson's rules, in unix milliseconds
-- KEYS[8] seen     zset    time of the last call of each waiter of leasehold, in unix milliseconds
-- KEYS[9] ids      zset    ids of an expirable semaphore's permits, each with its end in unix milliseconds
-- KEYS[10] fifo    list    waiters of a FIFO semaphore, next in the queue first
-- KEYS[11] called  zset    time of the last call of each of them, in unix milliseconds
-- KEYS[12] note    string  how the last rounds of a latch have ended
-- ARGV[1] numsub   string  NUMSUB, SHARDNUMSUB for sharded channels, or empty where one node does not know all listeners
-- ARGV[2] hashes   string  the channel of a lock
-- ARGV[3] sides    string  the channel of a read-write lock
-- ARGV[4] permits  string  the channel of a semaphore
-- ARGV[5] latch    string  the channel of a latch
-- ARGV[6] strings  string  the channel of a plain lock
-- returns {time, type, PTTL, length, content, leases of readers, marks, queue, ids, FIFO queue, listeners (-1: unknown)}
-- calls hexists hlen pttl pubsub strlen time type
-- wire 24; at most 100 parts of each key
local lock, readers, writer, upgrade, token = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local queue, timeout, seen, ids = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local fifo, called, note = KEYS[10], KEYS[11], KEYS[12]
local numsub, hashes, sides, permits, latch, strings = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local found, time, length, content, leases = redis.call('type', lock), redis.call('time'), 0, false, {}
found = type(found) == 'table' and found.ok or found
if found == 'hash' then
  length, content = redis.call('hlen', lock), fields(lock)
  if redis.call('hexists', lock, 'mode') == 1 then leases = leases_of(readers, content) end
elseif found == 'string' then
  length, content = redis.call('strlen', lock), text(lock)
end
local marks = { text(token), text(writer), text(upgrade), text(note) }
local heard = numsub ~= '' and redis.pcall('pubsub', numsub, hashes, sides, permits, latch, strings) or {}
local listeners = { heard[2] or -1, heard[4] or -1, heard[6] or -1, heard[8] or -1, heard[10] or -1 }
return {
  time[1] * 1000 + math.floor(time[2] / 1000), found, redis.call('pttl', lock), length, content, leases, marks,
  waiters(queue, seen, timeout), ends(ids), waiters(fifo, called, called), listeners,
}
