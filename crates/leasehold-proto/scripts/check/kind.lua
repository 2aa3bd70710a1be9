-- Tells which kind of object has the name of a lock.
-- KEYS[1] lock any the object
-- returns the type of the key; for a hash with one field, lock if it looks like a lock, else field
-- calls type hlen hgetall
-- wire 19.6
local lock = KEYS[1]
local kind = redis.call('type', lock)
kind = type(kind) == 'table' and kind.ok or kind
if kind ~= 'hash' or redis.call('hlen', lock) ~= 1 then
  return kind
end
local found = redis.call('hgetall', lock)
local is_lock = found[1]:find('^.+:%d+$') and found[2]:find('^%d+$')
return is_lock and 'lock' or 'field'
