-- Tells which server runs the script.
-- returns the run id of the server, nil if the server does not say
-- calls info
-- wire 19.5; a proxy in front of several servers chooses one by KEYS, which the script does not read
return redis.call('info', 'server'):match('run_id:(%w+)')
