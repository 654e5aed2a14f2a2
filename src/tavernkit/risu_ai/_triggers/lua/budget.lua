-- The budget of a script: instructions, time and memory. Runs before any code of a script, as all these files do.
--
-- A hook looks at the budget every few instructions. What C functions do in between, the process pays for: the system
-- ends it soon after the time is over.
-- Once it is spent, the hook raises at every instruction and no pcall
-- catches that, so nothing goes on. The same holds for an overflow of the stack (near which no hook could run any more)
-- and for the end of the memory.
--
-- Memory has two bounds. The host's allocator refuses what goes beyond the upper one; the script is stopped at the lower
-- one. Calls of the host happen below the lower one only, and a reserve is given up when a script ends above it: outside
-- of protected calls an allocation must never fail.

local interval, memory = ...

local sethook, cpu_clock, collect = debug.sethook, os.clock, collectgarbage
local create, resume, close = coroutine.create, coroutine.resume, coroutine.close
local error, type, pcall, pack, unpack = error, type, pcall, table.pack, table.unpack
local find, rep = string.find, string.rep

local STOPPED = "the script was stopped: it used up its budget"
local RESERVE = 262144
local FATAL = { ["not enough memory"] = true, ["error in error handling"] = true }

local left, cpu_limit, spent = 0, 0, false
local kilobytes = memory / 1024
local reserve

local function has_room()
  if collect("count") <= kilobytes then return true end
  collect()
  return collect("count") <= kilobytes
end

local function in_time() return cpu_clock() < cpu_limit end

local function hook()
  if not spent then
    left = left - interval
    if left > 0 and has_room() and in_time() then return end
    spent = true
  end
  reserve = nil
  sethook(hook, "", 1)
  error(STOPPED, 0)
end

local function stop()
  spent = true
  hook()
end

local budget = {}

-- Start a new budget.
function budget.begin(instructions, seconds)
  left, spent = instructions, false
  reserve = reserve or rep("r", RESERVE)
  cpu_limit = cpu_clock() + seconds
  sethook(hook, "", interval)
end

-- Call something as the last thing before the host goes on.
function budget.finish(body, ...)
  local results = pack(pcall(body, ...))
  if spent or not has_room() then stop() end
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2, results.n)
end

function budget.is_spent() return spent end

-- Pay for something that takes no instructions of Lua.
function budget.spend(instructions)
  left = left - instructions
  if left <= 0 then stop() end
end

-- Look at the memory before the host is called, and at the clock before something that takes long.
function budget.room()
  if spent or not has_room() then stop() end
end

function budget.look()
  if spent or not (has_room() and in_time()) then stop() end
end

local function checked(ok, ...)
  if ok then return true, ... end
  local problem = ...
  if spent or (type(problem) == "string" and (FATAL[problem] or find(problem, "stack overflow", 1, true))) then
    spent, reserve = true, nil
    error(problem, 0)
  end
  return false, ...
end

function budget.pcall(...) return checked(pcall(...)) end

-- The handler runs after the stack is unwound: near its end no hook could stop it. Without debug it cannot tell.
function budget.xpcall(body, handler, ...)
  local results = pack(checked(pcall(body, ...)))
  if results[1] then return unpack(results, 1, results.n) end
  local handled = pack(checked(pcall(handler, results[2])))
  return false, unpack(handled, 2, handled.n)
end

function budget.resume(...) return checked(resume(...)) end

function budget.close(...) return checked(close(...)) end

-- Hooks belong to one coroutine: each new one gets its own.
function budget.create(body)
  local thread = create(body)
  sethook(thread, hook, "", spent and 1 or interval)
  return thread
end

function budget.wrap(body)
  local thread = budget.create(body)
  return function(...)
    local results = pack(checked(resume(thread, ...)))
    if results[1] then return unpack(results, 2, results.n) end
    error(results[2], 0)
  end
end

return budget
