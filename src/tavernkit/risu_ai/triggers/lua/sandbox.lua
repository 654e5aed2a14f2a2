-- Takes away what a script must not have and bounds what it keeps. Runs before any code of a script.
-- Returns: begin(instructions, seconds), which starts a new budget, is_spent(), run_script(code), and the functions that
-- other parts need unharmed.

local over_time, clock_now, utc_offset, draw, interval, max_text = ...

local sethook, cpu_clock, date, time = debug.sethook, os.clock, os.date, os.time
local create, resume, status = coroutine.create, coroutine.resume, coroutine.status
local isyieldable = coroutine.isyieldable
local rawsetmetatable, rawload, error, type, select, next = setmetatable, load, error, type, select, next
local rawget, rawlen, rawequal, tostring, tonumber, getmetatable = rawget, rawlen, rawequal, tostring, tonumber, getmetatable
local floor, tointeger = math.floor, math.tointeger
local pack, unpack, concat, sort, rep = table.pack, table.unpack, table.concat, table.sort, string.rep
local find, match, gmatch, gsub, sub = string.find, string.match, string.gmatch, string.gsub, string.sub

-- The budget. A hook looks at it every few instructions. Once it is spent, the hook raises at every instruction, so
-- that no pcall can go on. Hooks belong to one coroutine: each new one gets its own.

local left, cpu_limit, cpu_slice, spent = 0, 0, 0, false

local function hook()
  if not spent then
    left = left - interval
    if left > 0 then
      if cpu_clock() < cpu_limit then return end
      if not over_time() then
        cpu_limit = cpu_clock() + cpu_slice
        return
      end
    end
    spent = true
  end
  sethook(hook, "", 1)
  error("the script was stopped: it used up its budget", 0)
end

local function begin(instructions, seconds)
  left, spent = instructions, false
  cpu_slice = seconds
  cpu_limit = cpu_clock() + seconds
  sethook(hook, "", interval)
end

local function is_spent() return spent end

function coroutine.create(body)
  local thread = create(body)
  sethook(thread, hook, "", spent and 1 or interval)
  return thread
end

local hooked_create = coroutine.create

function coroutine.wrap(body)
  local thread = hooked_create(body)
  return function(...)
    local results = pack(resume(thread, ...))
    if results[1] then return unpack(results, 2, results.n) end
    error(results[2], 0)
  end
end

-- Finalizers run without hooks, so there are none.

function setmetatable(object, metatable)
  if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
    error("__gc is not available", 2)
  end
  return rawsetmetatable(object, metatable)
end

-- Code comes as text only: bytecode can break the machine.

function load(chunk, name, _, ...)
  if type(chunk) == "function" then
    local pieces = {}
    while true do
      local piece = chunk()
      if piece == nil or piece == "" then break end
      if type(piece) ~= "string" then error("reader function must return a string", 2) end
      pieces[#pieces + 1] = piece
    end
    chunk = concat(pieces)
  end
  if type(chunk) ~= "string" then error("bad argument #1 to 'load' (string expected)", 2) end
  if #chunk > max_text then return nil, "the code is too long" end
  return rawload(chunk, name or "=(load)", "t", ...)
end

-- Library functions that could work for ages without a single instruction of Lua.

function string.rep(text, count, separator)
  if type(text) == "number" then text = tostring(text) end
  if type(text) ~= "string" then error("bad argument #1 to 'rep' (string expected)", 2) end
  local times = tointeger(tonumber(count))
  if times == nil then error("bad argument #2 to 'rep' (number has no integer representation)", 2) end
  separator = separator == nil and "" or tostring(separator)
  local each = #text + #separator
  if times <= 0 or each == 0 then return "" end
  if times > max_text // each then error("resulting string too large", 2) end
  return rep(text, times, separator)
end

string.dump = nil

local function position(value, name, number)
  local whole = tointeger(tonumber(value))
  if whole == nil then error("bad argument #" .. number .. " to '" .. name .. "' (number expected)", 3) end
  return whole
end

function table.insert(list, ...)
  local last, count = #list + 1, select("#", ...)
  if count == 1 then
    list[last] = (...)
  elseif count == 2 then
    local place, value = ...
    place = position(place, "insert", 2)
    if place < 1 or place > last then error("bad argument #2 to 'insert' (position out of bounds)", 2) end
    for index = last, place + 1, -1 do list[index] = list[index - 1] end
    list[place] = value
  else
    error("wrong number of arguments to 'insert'", 2)
  end
end

function table.remove(list, ...)
  local size = #list
  local place = size
  if select("#", ...) > 0 then
    place = position((...), "remove", 2)
    if size + 1 ~= place and (place < 1 or place > size + 1) and not (size == 0 and place == 0) then
      error("bad argument #2 to 'remove' (position out of bounds)", 2)
    end
  end
  local value = list[place]
  for index = place, size - 1 do list[index] = list[index + 1] end
  list[place < size and size or place] = nil
  return value
end

function table.move(source, first, last, target, other)
  first, last = position(first, "move", 2), position(last, "move", 3)
  target = position(target, "move", 4)
  other = other or source
  if target > last or target <= first or not rawequal(source, other) then
    for index = 0, last - first do other[target + index] = source[first + index] end
  else
    for index = last - first, 0, -1 do other[target + index] = source[first + index] end
  end
  return other
end

local most_sorted, most_joined = 200000, 1000000

function table.sort(list, before)
  local metatable = getmetatable(list)
  if type(metatable) == "table" and rawget(metatable, "__len") ~= nil then
    error("a table with __len cannot be sorted", 2)
  end
  if rawlen(list) > most_sorted then error("the table is too large to be sorted", 2) end
  return sort(list, before)
end

function table.concat(list, separator, first, last)
  first = first == nil and 1 or position(first, "concat", 3)
  last = last == nil and #list or position(last, "concat", 4)
  if last - first > most_joined then error("the table is too large to be joined", 2) end
  return concat(list, separator, first, last)
end

-- Time and chance come from outside, so that a run can be repeated.

os = {
  clock = function() return 0.0 end,
  difftime = function(later, earlier) return later - (earlier or 0) + 0.0 end,
  time = function(fields)
    if fields == nil then return clock_now() end
    if type(fields) ~= "table" then error("bad argument #1 to 'time' (table expected)", 2) end
    local copy = {}
    for _, name in next, { "year", "month", "day", "hour", "min", "sec", "isdst" } do copy[name] = fields[name] end
    local plain = time(copy)
    local there = time(date("!*t", plain))
    return plain + (plain - there) - utc_offset()
  end,
  date = function(format, moment)
    format = format == nil and "%c" or tostring(format)
    moment = moment == nil and clock_now() or floor(tonumber(moment))
    if sub(format, 1, 1) == "!" then return date(format, moment) end
    return date("!" .. format, moment + utc_offset())
  end,
}

function math.random(first, last)
  local drawn = draw()
  if first == nil then return drawn end
  if last == nil then first, last = 1, first end
  first, last = position(first, "random", 1), position(last, "random", 2)
  if first > last then error("bad argument #1 to 'random' (interval is empty)", 2) end
  return first + floor(drawn * (last - first + 1))
end

function math.randomseed() end

function collectgarbage() return 0 end

io, debug, package, require, dofile, loadfile, python, warn = nil

local function run_script(code)
  local script, problem = rawload(code, "=script", "t")
  if not script then error(problem, 0) end
  script()
end

return begin, is_spent, run_script, {
  find = find,
  match = match,
  gmatch = gmatch,
  gsub = gsub,
  resume = resume,
  status = status,
  create = hooked_create,
  isyieldable = isyieldable,
  setmetatable = rawsetmetatable,
}
