-- Says who leads, if the leader still holds the lock, and tells the observers of a new one.
-- KEYS[1] lock         hash    the lock; field: wire owner, value: hold count
-- KEYS[2] announcement hash    what the leader says of itself
-- ARGV[1] owner        string  wire owner of the leader
-- ARGV[2] term         integer fencing token of the leader
-- ARGV[3] candidate    string  name of the leader
-- ARGV[4] info         string  what the leader tells observers
-- ARGV[5] host         string  machine of the leader
-- ARGV[6] pid          integer process of the leader
-- ARGV[7] kept_ms      integer the announcement is kept this long unless it is repeated
-- ARGV[8] publish      string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[9] channel      string  the channel of the observers
-- returns 1, or 0 when the lock has another owner or none
-- calls hexists hget hset pexpire time publish|spublish
-- wire 26.2; a repeated call keeps the begin of the term and publishes nothing
local lock, announcement = KEYS[1], KEYS[2]
local owner, term, candidate, info, host, pid = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local kept_ms, publish, channel = ARGV[7], ARGV[8], ARGV[9]
if redis.call('hexists', lock, owner) == 0 then
  return 0
end
local is_new = redis.call('hget', announcement, 'owner') ~= owner
if is_new then
  local time = redis.call('time')
  redis.call('hset', announcement, 'since', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
end
redis.call('hset', announcement, 'owner', owner, 'term', term, 'candidate', candidate,
  'info', info, 'host', host, 'pid', pid)
redis.call('pexpire', announcement, kept_ms)
if is_new then
  redis.pcall(publish, channel, term)
end
return 1
