-- The environment of scripts: what is harmless of Lua's libraries, and bounded forms of what is not. Scripts get a table
-- of their own as their globals; the real one stays with the host, which reads it without protection.

local budget, clock_now, utc_offset, draw, max_text, load_cost = ...

local date, time = os.date, os.time
local rawsetmetatable, load, error, type, select, next = setmetatable, load, error, type, select, next
local rawget, rawlen, rawequal, tostring, tonumber, getmetatable = rawget, rawlen, rawequal, tostring, tonumber, getmetatable
local floor, tointeger = math.floor, math.tointeger
local concat, sort, rep, sub = table.concat, table.sort, string.rep, string.sub
local look, room = budget.look, budget.room

local globals = {
  _VERSION = _VERSION, assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = rawset, select = select,
  tonumber = tonumber, tostring = tostring, type = type,
  math = math, string = string, table = table, utf8 = utf8,
  pcall = budget.pcall, xpcall = budget.xpcall,
}
globals._G = globals

globals.coroutine = {
  create = budget.create, wrap = budget.wrap, resume = budget.resume, close = budget.close,
  isyieldable = coroutine.isyieldable, running = coroutine.running, status = coroutine.status, yield = coroutine.yield,
}

-- Finalizers run without hooks, so there are none.
function globals.setmetatable(object, metatable)
  if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
    error("__gc is not available", 2)
  end
  return rawsetmetatable(object, metatable)
end

getmetatable("").__metatable = false

function globals.collectgarbage() return 0 end

-- Code comes as text only: bytecode can break the machine.
function globals.load(chunk, name, _, ...)
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
  look()
  budget.spend(#chunk * load_cost)
  local environment = globals
  if select("#", ...) > 0 then environment = (...) end
  return load(chunk, name == nil and "=(load)" or tostring(name), "t", environment)
end

-- Library functions that could work for ages without a single instruction of Lua. Those that stay are quick enough for
-- a look at the clock beforehand.

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
  if (...) ~= nil then
    place = position((...), "remove", 2)
    if (place < 1 or place > size + 1) and not (size == 0 and place == 0) then
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

local most_sorted, most_joined = 100000, 1000000

function table.sort(list, before)
  local metatable = getmetatable(list)
  if type(metatable) == "table" and rawget(metatable, "__len") ~= nil then
    error("a table with __len cannot be sorted", 2)
  end
  if rawlen(list) > most_sorted then error("the table is too large to be sorted", 2) end
  look()
  return sort(list, before)
end

function table.concat(list, separator, first, last)
  first = first == nil and 1 or position(first, "concat", 3)
  last = last == nil and #list or position(last, "concat", 4)
  if last - first > most_joined then error("the table is too large to be joined", 2) end
  return concat(list, separator, first, last)
end

-- Time and chance come from the host, so that a run can be repeated.

local function now()
  room()
  return clock_now()
end

local function offset()
  room()
  return utc_offset()
end

globals.os = {
  clock = function() return 0.0 end,
  difftime = function(later, earlier) return later - (earlier or 0) + 0.0 end,
  time = function(fields)
    if fields == nil then return now() end
    if type(fields) ~= "table" then error("bad argument #1 to 'time' (table expected)", 2) end
    local copy = {}
    for _, name in next, { "year", "month", "day", "hour", "min", "sec", "isdst" } do copy[name] = fields[name] end
    local plain = time(copy)
    local there = time(date("!*t", plain))
    return plain + (plain - there) - offset()
  end,
  date = function(format, moment)
    format = format == nil and "%c" or tostring(format)
    moment = moment == nil and now() or floor(tonumber(moment))
    if sub(format, 1, 1) == "!" then return date(format, moment) end
    return date("!" .. format, moment + offset())
  end,
}

-- There are no files to open, and no stack to show.

globals.io = {
  open = function(name) return nil, tostring(name) .. ": No such file or directory", 2 end,
  read = function() return nil end,
}

globals.debug = {
  traceback = function(message)
    if message == nil then return "stack traceback:" end
    if type(message) ~= "string" and type(message) ~= "number" then return message end
    return message .. "\nstack traceback:"
  end,
}

function math.random(first, last)
  room()
  local drawn = draw()
  if first == nil then return drawn end
  if last == nil then first, last = 1, first end
  first, last = position(first, "random", 1), position(last, "random", 2)
  if first > last then error("bad argument #1 to 'random' (interval is empty)", 2) end
  return first + floor(drawn * (last - first + 1))
end

function math.randomseed() end

-- JavaScript's null is a userdata in RisuAI. This one was the standard error stream; without its metatable it is nothing.
local null = io.stderr
debug.setmetatable(null, { __tostring = function() return "null" end, __name = "null", __metatable = false })
globals.null = null

local function run_script(code)
  budget.spend(#code * load_cost)
  local script, problem = load(code, "=script", "t", globals)
  if not script then error(problem, 0) end
  script()
end

debug, io, os, package, require, dofile, loadfile, python, warn = nil

return globals, function(code) return budget.finish(run_script, code) end
