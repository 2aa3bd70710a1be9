-- Holds helpers for the note of a latch, which tells its waiters how the last rounds have ended.
-- returns nothing: functions for the scripts of this folder
-- calls get time
-- wire 14.4
-- Reads the numbers of the last opening and of the last deletion, 0 for none. Any other text is no note.
local function ends(note)
  local opened, deleted = string.match(redis.call('get', note) or '', '^(%d+) (%d+)$')
  return tonumber(opened or 0), tonumber(deleted or 0)
end
-- Returns the note with the end of one more round. Its number is the time in microseconds, so it is larger than those of
-- rounds whose note has expired. A clock that was set back makes it one more than the last number.
local function ended(note, is_deletion)
  local opened, deleted = ends(note)
  local time = redis.call('time')
  local number = math.max(time[1] * 1000000 + time[2], opened + 1, deleted + 1)
  return string.format('%.0f %.0f', is_deletion and opened or number, is_deletion and number or deleted)
end
