-- Stores the token between the check and a script of the application, which may then write at once.
-- returns nothing; the next script follows
-- calls set
-- wire 7.3; removes the key and the token of the check, so the next script counts its own from 1
KEYS[#KEYS], ARGV[#ARGV] = nil, nil
redis.call('set', fence, string.format('%.0f', token))
