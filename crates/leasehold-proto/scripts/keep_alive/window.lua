-- Holds the helpers of the calls that show waiters alive: the window of the queue, and the test for a client's waiter.
-- returns nothing: functions for the scripts of this folder
-- calls lrange
-- wire 6.9, 12.5
local WINDOW = 1000
local function is_place(from)
  return from and from >= 0 and from % 1 == 0
end
local function window_of(queue, from)
  return redis.call('lrange', queue, from, from + WINDOW - 1)
end
local function is_of(client, owner)
  return owner and string.sub(owner, 1, #client) == client
end
-- Returns the number in the client's wire owner, or an empty string for another owner.
local function number_of(client, owner)
  return is_of(client, owner) and string.sub(owner, #client + 1) or ''
end
