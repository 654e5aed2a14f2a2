-- The json module that scripts know: null is nil, an empty table is a list, numbers have 14 digits, a comma may come last.

local find, gsub, match = string.find, string.gsub, string.match
local byte, sub, char, format, concat = string.byte, string.sub, string.char, string.format, table.concat
local type, error, next, rawget, tostring, tonumber, rawlen = type, error, next, rawget, tostring, tonumber, rawlen
local utf8_char, infinity = utf8.char, math.huge

local MAX_DEPTH = 150

local ESCAPES = {
  ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}

local function escaped(character)
  return ESCAPES[character] or format("\\u%04x", byte(character))
end

local function quoted(text)
  return '"' .. gsub(text, '[%c"\\]', escaped) .. '"'
end

local encode

local function encode_list(list, stack, depth)
  local count = 0
  for key in next, list do
    if type(key) ~= "number" then error("invalid table: mixed or invalid key types", 0) end
    count = count + 1
  end
  if count ~= rawlen(list) then error("invalid table: sparse array", 0) end
  local parts = {}
  for index = 1, count do parts[index] = encode(rawget(list, index), stack, depth + 1) end
  return "[" .. concat(parts, ",") .. "]"
end

local function encode_object(object, stack, depth)
  local parts = {}
  for key, value in next, object do
    if type(key) ~= "string" then error("invalid table: mixed or invalid key types", 0) end
    parts[#parts + 1] = quoted(key) .. ":" .. encode(value, stack, depth + 1)
  end
  return "{" .. concat(parts, ",") .. "}"
end

function encode(value, stack, depth)
  local kind = type(value)
  if kind == "string" then return quoted(value) end
  if kind == "nil" then return "null" end
  if kind == "boolean" then return tostring(value) end
  if kind == "number" then
    if value ~= value or value <= -infinity or value >= infinity then
      error("unexpected number value '" .. tostring(value) .. "'", 0)
    end
    return format("%.14g", value)
  end
  if kind ~= "table" then error("unexpected type '" .. kind .. "'", 0) end
  if stack[value] then error("circular reference", 0) end
  if depth > MAX_DEPTH then error("the table is nested too deeply", 0) end
  stack[value] = true
  local is_list = rawget(value, 1) ~= nil or next(value) == nil
  local text = (is_list and encode_list or encode_object)(value, stack, depth)
  stack[value] = nil
  return text
end

local function fail(text, place, message)
  local before = sub(text, 1, place)
  local _, lines = gsub(before, "\n", "")
  error(format("%s at line %d", message, lines + 1), 0)
end

local function skip(text, place)
  return find(text, "[^ \t\r\n]", place) or #text + 1
end

local UNESCAPED = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function unicode(text, place)
  local digits = match(text, "^%x%x%x%x", place)
  if not digits then fail(text, place, "invalid unicode escape in string") end
  local code = tonumber(digits, 16)
  if code >= 0xD800 and code < 0xDC00 then
    local low = match(text, "^\\u([dD][c-fC-F]%x%x)", place + 4)
    if low then
      return utf8_char(0x10000 + (code - 0xD800) * 0x400 + tonumber(low, 16) - 0xDC00), place + 10
    end
  end
  return utf8_char(code), place + 4
end

local function decode_string(text, place)
  local parts, start = {}, place + 1
  while true do
    local mark = find(text, '[%c"\\]', start)
    if not mark then fail(text, place, "expected closing quote for string") end
    parts[#parts + 1] = sub(text, start, mark - 1)
    local code = byte(text, mark)
    if code == 34 then return concat(parts), mark + 1 end
    if code == 127 then
      parts[#parts + 1] = char(code)
      start = mark + 1
    elseif code ~= 92 then
      fail(text, mark, "control character in string")
    else
      local letter = sub(text, mark + 1, mark + 1)
      if letter == "u" then
        parts[#parts + 1], start = unicode(text, mark + 2)
      elseif UNESCAPED[letter] then
        parts[#parts + 1], start = UNESCAPED[letter], mark + 2
      else
        fail(text, mark, "invalid escape char '" .. letter .. "' in string")
      end
    end
  end
end

local decode

local function decode_list(text, place, depth)
  local list, count = {}, 0
  place = place + 1
  while true do
    place = skip(text, place)
    if byte(text, place) == 93 then return list, place + 1 end
    count = count + 1
    list[count], place = decode(text, place, depth + 1)
    place = skip(text, place)
    local code = byte(text, place)
    if code == 93 then return list, place + 1 end
    if code ~= 44 then fail(text, place, "expected ']' or ','") end
    place = place + 1
  end
end

local function decode_object(text, place, depth)
  local object = {}
  place = place + 1
  while true do
    place = skip(text, place)
    if byte(text, place) == 125 then return object, place + 1 end
    if byte(text, place) ~= 34 then fail(text, place, "expected string for key") end
    local key
    key, place = decode_string(text, place)
    place = skip(text, place)
    if byte(text, place) ~= 58 then fail(text, place, "expected ':' after key") end
    object[key], place = decode(text, place + 1, depth + 1)
    place = skip(text, place)
    local code = byte(text, place)
    if code == 125 then return object, place + 1 end
    if code ~= 44 then fail(text, place, "expected '}' or ','") end
    place = place + 1
  end
end

local LITERALS = { ["true"] = { true }, ["false"] = { false }, ["null"] = { nil } }

function decode(text, place, depth)
  if depth > MAX_DEPTH then fail(text, place, "nested too deeply") end
  place = skip(text, place)
  local code = byte(text, place)
  if code == 34 then return decode_string(text, place) end
  if code == 91 then return decode_list(text, place, depth) end
  if code == 123 then return decode_object(text, place, depth) end
  local stop = find(text, "[ \t\r\n%]},]", place) or #text + 1
  local word = sub(text, place, stop - 1)
  local literal = LITERALS[word]
  if literal then return literal[1], stop end
  local number = find(word, "^[-%d]") and tonumber(word)
  if not number then fail(text, place, "unexpected character '" .. sub(text, place, place) .. "'") end
  return number, stop
end

return {
  encode = function(value) return encode(value, {}, 0) end,
  decode = function(text)
    if type(text) ~= "string" then error("expected argument of type string, got " .. type(text), 0) end
    local value, place = decode(text, 1, 0)
    if skip(text, place) <= #text then fail(text, place, "trailing garbage") end
    return value
  end,
}
