-- Reads who leads, and changes nothing.
-- KEYS[1] lock         hash   the lock; field: wire owner, value: hold count
-- KEYS[2] token        string the fencing token of the last grant
-- KEYS[3] announcement hash   what the last leader says of itself
-- returns nil without a leader, else {PTTL (-1: no expiry), owner, token or '', fields and values of the announcement}
-- calls get hgetall hlen pttl
-- wire 26.2; the reader believes the announcement only if its owner is the lock's
local lock, token, announcement = KEYS[1], KEYS[2], KEYS[3]
local holders = redis.call('hlen', lock)
if holders > 1 then
  return redis.error_reply('WRONGTYPE the name belongs to a read-write lock or a group of values')
end
if holders == 0 then
  return nil
end
return {
  redis.call('pttl', lock), redis.call('hgetall', lock)[1], redis.call('get', token) or '',
  redis.call('hgetall', announcement),
}
