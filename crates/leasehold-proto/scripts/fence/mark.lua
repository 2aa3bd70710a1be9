-- Remembers the token, behind the check and before a script of a user's, which may write at once.
-- returns nothing: the script that follows goes on
-- calls set
-- wire 7; not Redisson's
redis.call('set', fence, string.format('%.0f', token))
