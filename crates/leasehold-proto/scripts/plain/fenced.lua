-- Acquires a free plain lock and raises a counter, which gives the fencing token. Else marks the holder.
-- KEYS[1] lock     string  the lock; value of the hold
-- KEYS[2] fence    string  the counter: the token of the last grant, or the last one that it reserved
-- KEYS[3] signal   list    the list that the release will write to, or the lock itself
-- ARGV[1] value    string  value of the hold, unique per acquisition
-- ARGV[2] marked   string  the value with its mark, or the value if it takes no mark
-- ARGV[3] lease_ms integer lease of the key from now
-- ARGV[4] marks    integer 1 when the caller listens to the channel or will ask again
-- ARGV[5] endless  integer 1 when a key without an expiry is waited for
-- ARGV[6] others   integer 1 when a key of another type counts as held
-- ARGV[7] repeats  integer 1 when the value, if it is there, can only be that of an earlier call of the caller
-- ARGV[8] tokens   integer how many tokens the grant reserves in a row; equal in each repeat of the call
-- returns {-2, the first token} on success, else {PTTL (-1: no expiry), ''}, or {PTTL, '', 1} of another library's hold
-- calls get set pttl pexpire setrange incrby
-- wire 25.8, 4.2; the counter is raised before the lock is written, so no grant lacks a token
-- The list is named so that a server which refuses its key does so here, and not at the release.
local lock, fence, signal, value, marked = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local lease_ms = tonumber(ARGV[3])
local marks, endless, others, repeats = ARGV[4] == '1', ARGV[5] == '1', ARGV[6] == '1', ARGV[7] == '1'
local tokens = tonumber(ARGV[8])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991
  or not tokens or tokens < 1 or tokens % 1 ~= 0 then
  return redis.error_reply('LOCKERR acquire: lease_ms and tokens must be whole and positive')
end
local held = redis.pcall('get', lock)
local is_other = type(held) == 'table'
if is_other and not (others and held.err:find('WRONGTYPE', 1, true)) then return held end
local is_own = repeats and held and (held == value or held == marked)
if not held or is_own then
  local last = is_own and tonumber(redis.call('get', fence)) or redis.call('incrby', fence, tokens)
  local is_token = last >= tokens and last < 9007199254740992
  if not is_token then return redis.error_reply('WRONGTYPE the fence key holds no token') end
  if not held then
    redis.call('set', lock, value, 'PX', ARGV[3])
  elseif redis.call('pttl', lock) < lease_ms then
    redis.call('pexpire', lock, ARGV[3])
  end
  return { -2, string.format('%.0f', last - tokens + 1) }
end
local remaining = redis.call('pttl', lock)
if remaining == -1 and endless then remaining = 86400000 end
local is_ours = not is_other and #held == 28 and held:find('^lh1%-[%w_-]+%-[01]$')
if remaining == -1 or not is_ours then return { remaining, '', 1 } end
if marks and held:sub(28) == '0' then redis.call('setrange', lock, 27, '1') end
return { remaining, '' }
