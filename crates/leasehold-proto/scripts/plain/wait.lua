-- Acquires a free plain lock for a waiter, or marks its holder, so that the holder's release sends a message.
-- KEYS[1] lock     string  the lock; value of the hold
-- KEYS[2] signal   list    the list that the release will write to, or the lock itself
-- ARGV[1] value    string  value of the hold, unique per acquisition
-- ARGV[2] marked   string  the value with its mark, or the value if it takes no mark
-- ARGV[3] lease_ms integer lease of the key from now
-- ARGV[4] marks    integer 1 when the caller listens to the channel or will ask again
-- ARGV[5] endless  integer 1 when a key without an expiry is waited for
-- ARGV[6] others   integer 1 when a key of another type counts as held
-- ARGV[7] repeats  integer 1 when the value, if it is there, can only be that of an earlier call of the caller
-- returns nil on success, else the PTTL of a hold of this library (-1: no expiry), or {PTTL} of another one's
-- calls get set pttl pexpire setrange
-- wire 25.3, 4.2; get refuses a key of another type, unless such a key counts as held
-- The list is named so that a server which refuses its key does so here, and not at the release.
local lock, signal, value, marked, lease_ms = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3])
local marks, endless, others, repeats = ARGV[4] == '1', ARGV[5] == '1', ARGV[6] == '1', ARGV[7] == '1'
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
local held = redis.pcall('get', lock)
if not held then
  redis.call('set', lock, value, 'PX', ARGV[3])
  return nil
end
local is_other = type(held) == 'table'
if is_other and not (others and held.err:find('WRONGTYPE', 1, true)) then return held end
local remaining = redis.call('pttl', lock)
if repeats and (held == value or held == marked) then
  if remaining < lease_ms then redis.call('pexpire', lock, ARGV[3]) end
  return nil
end
if remaining == -1 then
  if not endless then return -1 end
  remaining = 86400000
end
if is_other or not held:find('^lh1%-[%w_-]+%-[01]$') or #held ~= 28 then return { remaining } end
if marks and held:sub(28) == '0' then redis.call('setrange', lock, 27, '1') end
return remaining
