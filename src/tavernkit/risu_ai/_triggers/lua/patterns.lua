-- Pattern matching in Lua itself, for searches that could keep the C functions busy for ages: here every step counts
-- against the script's budget. Searches that cannot take more than MAX_QUICK steps still go to C.

local MAX_QUICK = ...

local byte, sub, char, concat = string.byte, string.sub, string.char, table.concat
local find, match, gmatch, gsub = string.find, string.match, string.gmatch, string.gsub
local type, error, tostring, tointeger, tonumber, unpack = type, error, tostring, math.tointeger, tonumber, table.unpack

local MAX_PLAIN = 1000000000
local MAX_CAPTURES, UNCLOSED, POSITION = 32, -1, -2
local PERCENT, OPEN, CLOSE, BRACKET, CARET, END_BRACKET, DOLLAR, DOT = 37, 40, 41, 91, 94, 93, 36, 46
local MINUS, STAR, PLUS, QUESTION, LETTER_B, LETTER_F, ZERO, NINE = 45, 42, 43, 63, 98, 102, 48, 57

-- Besides repetitions, %b and references to captures go through the text from each place.
local function is_quick(text, pattern)
  local _, loops = gsub(pattern, "[*+-]", "")
  local _, walks = gsub(pattern, "%%[b%d]", "")
  loops = loops + walks
  local _, options = gsub(pattern, "?", "")
  return (#text + 1.0) ^ (loops + 1) * 2.0 ^ options * (#pattern + 1) <= MAX_QUICK
end

local classes = {}

local function in_class(code, letter)
  local class = classes[letter]
  if class == nil then
    class = {}
    classes[letter] = class
  end
  local known = class[code]
  if known == nil then
    if find(char(letter), "[acdglpsuwxzACDGLPSUWXZ]") then
      known = find(char(code), "%" .. char(letter)) ~= nil
    else
      known = code == letter
    end
    class[code] = known
  end
  return known
end

local function matcher(text, pattern)
  local size, length = #text, #pattern
  local starts, lengths, level = {}, {}, 0
  local sets = {}
  local do_match

  local function class_end(at)
    local code = byte(pattern, at)
    at = at + 1
    if code == PERCENT then
      if at > length then error("malformed pattern (ends with '%')", 0) end
      return at + 1
    elseif code == BRACKET then
      if byte(pattern, at) == CARET then at = at + 1 end
      repeat
        local inner = byte(pattern, at)
        if inner == nil then error("malformed pattern (missing ']')", 0) end
        at = at + 1
        if inner == PERCENT then at = at + 1 end
      until byte(pattern, at) == END_BRACKET
      return at + 1
    end
    return at
  end

  local function in_set(code, at, stop)
    local wanted = true
    if byte(pattern, at + 1) == CARET then
      wanted = false
      at = at + 1
    end
    at = at + 1
    while at < stop do
      local first = byte(pattern, at)
      if first == PERCENT then
        at = at + 1
        if in_class(code, byte(pattern, at)) then return wanted end
      elseif byte(pattern, at + 1) == MINUS and at + 2 < stop then
        at = at + 2
        if first <= code and code <= byte(pattern, at) then return wanted end
      elseif first == code then
        return wanted
      end
      at = at + 1
    end
    return not wanted
  end

  local function fits(code, at, stop)
    local first = byte(pattern, at)
    if first == DOT then return true end
    if first == PERCENT then return in_class(code, byte(pattern, at + 1)) end
    if first ~= BRACKET then return first == code end
    local set = sets[at]
    if set == nil then
      set = {}
      sets[at] = set
    end
    local known = set[code]
    if known == nil then
      known = in_set(code, at, stop - 1)
      set[code] = known
    end
    return known
  end

  local function single(place, at, stop)
    return place <= size and fits(byte(text, place), at, stop)
  end

  local function longest(place, at, stop)
    local count = 0
    while single(place + count, at, stop) do count = count + 1 end
    while count >= 0 do
      local found = do_match(place + count, stop + 1)
      if found then return found end
      count = count - 1
    end
  end

  local function shortest(place, at, stop)
    while true do
      local found = do_match(place, stop + 1)
      if found then return found end
      if not single(place, at, stop) then return nil end
      place = place + 1
    end
  end

  local function balanced(place, at)
    if at + 1 > length then error("malformed pattern (missing arguments to '%b')", 0) end
    local opening, closing = byte(pattern, at, at + 1)
    if byte(text, place) ~= opening then return nil end
    local depth = 1
    while place < size do
      place = place + 1
      local code = byte(text, place)
      if code == closing then
        depth = depth - 1
        if depth == 0 then return place + 1 end
      elseif code == opening then
        depth = depth + 1
      end
    end
  end

  local function open_capture(place, at, kind)
    if level >= MAX_CAPTURES then error("too many captures", 0) end
    level = level + 1
    starts[level], lengths[level] = place, kind
    local found = do_match(place, at)
    if not found then level = level - 1 end
    return found
  end

  local function close_capture(place, at)
    local number = level
    while number > 0 and lengths[number] ~= UNCLOSED do number = number - 1 end
    if number == 0 then error("invalid pattern capture", 0) end
    lengths[number] = place - starts[number]
    local found = do_match(place, at)
    if not found then lengths[number] = UNCLOSED end
    return found
  end

  local function repeated(place, digit)
    local number = digit - ZERO
    if number < 1 or number > level or lengths[number] == UNCLOSED then
      error("invalid capture index %" .. number .. " in pattern", 0)
    end
    local wanted = lengths[number]
    if wanted == POSITION or size - place + 1 < wanted then return nil end
    if sub(text, starts[number], starts[number] + wanted - 1) ~= sub(text, place, place + wanted - 1) then return nil end
    return place + wanted
  end

  -- What begins with a percent sign; returns where to go on, or false if there is no match, or nothing special.
  local function special(place, at)
    local letter = byte(pattern, at + 1)
    if letter == LETTER_B then
      place = balanced(place, at + 2)
      if not place then return false end
      return place, at + 4
    elseif letter == LETTER_F then
      at = at + 2
      if byte(pattern, at) ~= BRACKET then error("missing '[' after '%f' in pattern", 0) end
      local stop = class_end(at)
      local before = place == 1 and 0 or byte(text, place - 1)
      if fits(before, at, stop) or not fits(byte(text, place) or 0, at, stop) then return false end
      return place, stop
    elseif letter and letter >= ZERO and letter <= NINE then
      place = repeated(place, letter)
      if not place then return false end
      return place, at + 2
    end
  end

  function do_match(place, at)
    while at <= length do
      local code = byte(pattern, at)
      if code == OPEN then
        if byte(pattern, at + 1) == CLOSE then return open_capture(place, at + 2, POSITION) end
        return open_capture(place, at + 1, UNCLOSED)
      elseif code == CLOSE then
        return close_capture(place, at + 1)
      elseif code == DOLLAR and at == length then
        return place == size + 1 and place or nil
      end
      local next_place, next_at
      if code == PERCENT then
        next_place, next_at = special(place, at)
        if next_place == false then return nil end
      end
      if next_place then
        place, at = next_place, next_at
      else
        local stop = class_end(at)
        local loop = byte(pattern, stop)
        if loop == QUESTION then
          if single(place, at, stop) then
            local found = do_match(place + 1, stop + 1)
            if found then return found end
          end
          at = stop + 1
        elseif loop == PLUS then
          if not single(place, at, stop) then return nil end
          return longest(place + 1, at, stop)
        elseif loop == STAR then
          return longest(place, at, stop)
        elseif loop == MINUS then
          return shortest(place, at, stop)
        else
          if not single(place, at, stop) then return nil end
          place, at = place + 1, stop
        end
      end
    end
    return place
  end

  local function capture(number, place, stop)
    if number > level then
      if number ~= 1 then error("invalid capture index %" .. number, 0) end
      return sub(text, place, stop - 1)
    end
    if lengths[number] == POSITION then return starts[number] end
    if lengths[number] == UNCLOSED then error("unfinished capture", 0) end
    return sub(text, starts[number], starts[number] + lengths[number] - 1)
  end

  return {
    at = function(place, start)
      level = 0
      return do_match(place, start)
    end,
    capture = capture,
    captures = function(place, stop, whole)
      local found = {}
      local count = (level == 0 and whole) and 1 or level
      for number = 1, count do found[number] = capture(number, place, stop) end
      return found, count
    end,
  }
end

local function text_argument(value, name, number)
  if type(value) == "number" then return tostring(value) end
  if type(value) ~= "string" then
    error("bad argument #" .. number .. " to '" .. name .. "' (string expected, got " .. type(value) .. ")", 3)
  end
  return value
end

local function first_place(init, size)
  local place = init == nil and 1 or tointeger(tonumber(init))
  if place == nil then error("bad argument #3 (number has no integer representation)", 3) end
  if place > 0 then return place end
  if place == 0 or place < -size then return 1 end
  return size + place + 1
end

local function search(text, pattern, init)
  local place = first_place(init, #text)
  if place > #text + 1 then return nil end
  local anchored = byte(pattern, 1) == CARET
  local machine = matcher(text, pattern)
  repeat
    local stop = machine.at(place, anchored and 2 or 1)
    if stop then return place, stop, machine end
    place = place + 1
  until place > #text + 1 or anchored
end

function string.find(text, pattern, init, plain)
  text, pattern = text_argument(text, "find", 1), text_argument(pattern, "find", 2)
  if plain or not find(pattern, "[%^%$%*%+%?%.%(%[%%%-]") then
    if (#text + 1.0) * (#pattern + 1) > MAX_PLAIN then error("the texts are too long to be searched", 2) end
    return find(text, pattern, init, plain)
  end
  if is_quick(text, pattern) then return find(text, pattern, init) end
  local place, stop, machine = search(text, pattern, init)
  if not place then return nil end
  local found, count = machine.captures(place, stop, false)
  return place, stop - 1, unpack(found, 1, count)
end

function string.match(text, pattern, init)
  text, pattern = text_argument(text, "match", 1), text_argument(pattern, "match", 2)
  if is_quick(text, pattern) then return match(text, pattern, init) end
  local place, stop, machine = search(text, pattern, init)
  if not place then return nil end
  local found, count = machine.captures(place, stop, true)
  return unpack(found, 1, count)
end

function string.gmatch(text, pattern, init)
  text, pattern = text_argument(text, "gmatch", 1), text_argument(pattern, "gmatch", 2)
  if is_quick(text, pattern) then return gmatch(text, pattern, init) end
  local place, last = first_place(init, #text), nil
  local machine = matcher(text, pattern)
  return function()
    while place <= #text + 1 do
      local stop = machine.at(place, 1)
      if stop and stop ~= last then
        local found, count = machine.captures(place, stop, true)
        place, last = stop, stop
        return unpack(found, 1, count)
      end
      place = place + 1
    end
  end
end

local function filled(template, machine, place, stop)
  local parts, at = {}, 1
  while true do
    local mark = find(template, "%", at, true)
    parts[#parts + 1] = sub(template, at, mark and mark - 1 or -1)
    if not mark then return concat(parts) end
    local code = byte(template, mark + 1)
    if code == PERCENT then
      parts[#parts + 1] = "%"
    elseif code == ZERO then
      parts[#parts + 1] = machine.whole(place, stop)
    elseif code and code > ZERO and code <= NINE then
      parts[#parts + 1] = tostring(machine.capture(code - ZERO, place, stop))
    else
      error("invalid use of '%' in replacement string", 0)
    end
    at = mark + 2
  end
end

local function replacement(kind, value, machine, place, stop)
  if kind == "string" then return filled(value, machine, place, stop) end
  local new
  if kind == "table" then
    new = value[machine.capture(1, place, stop)]
  else
    local found, count = machine.captures(place, stop, true)
    new = value(unpack(found, 1, count))
  end
  if not new then return machine.whole(place, stop) end
  if type(new) ~= "string" and type(new) ~= "number" then
    error("invalid replacement value (a " .. type(new) .. ")", 0)
  end
  return new
end

function string.gsub(text, pattern, value, limit)
  text, pattern = text_argument(text, "gsub", 1), text_argument(pattern, "gsub", 2)
  if is_quick(text, pattern) then return gsub(text, pattern, value, limit) end
  local kind = type(value)
  if kind == "number" then value, kind = tostring(value), "string" end
  if kind ~= "string" and kind ~= "table" and kind ~= "function" then
    error("bad argument #3 to 'gsub' (string/function/table expected, got " .. kind .. ")", 2)
  end
  local most = limit == nil and #text + 1 or tointeger(tonumber(limit))
  local anchored = byte(pattern, 1) == CARET
  local machine = matcher(text, pattern)
  machine.whole = function(place, stop) return sub(text, place, stop - 1) end
  local parts, place, last, count = {}, 1, nil, 0
  while count < most do
    local stop = machine.at(place, anchored and 2 or 1)
    if stop and stop ~= last then
      count = count + 1
      parts[#parts + 1] = replacement(kind, value, machine, place, stop)
      place, last = stop, stop
    elseif place <= #text then
      parts[#parts + 1] = sub(text, place, place)
      place = place + 1
    else
      break
    end
    if anchored then break end
  end
  parts[#parts + 1] = sub(text, place)
  return concat(parts), count
end
