-- Notes the reply of a row, and returns the replies of all.
-- returns an array with an item for each row: its reply, false for nil, or its error; no row ends another
-- calls nothing
-- wire 19.4; a script error is a text on most servers
  if not ended then
    local text = type(reply) == 'table' and reply.err or tostring(reply)
    reply = {err = string.match(text, '^%u+ ') and text or 'ERR ' .. text}
  elseif reply == nil then
    reply = false
  end
  replies[row] = reply
end
return replies
