-- Stores the token between the check and a script of the application, which may then write at once.
-- returns nothing; the next script follows
-- calls set
-- wire 7.3
redis.call('set', fence, string.format('%.0f', token))
