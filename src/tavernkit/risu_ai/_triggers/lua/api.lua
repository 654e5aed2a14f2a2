-- What scripts can call. Each function asks the host by name; only texts, numbers, booleans and nil go across.
-- Returns: handle(name, ...), which calls a global function, and listen(kind, key, value, meta).

local budget, globals, json, functions, call, state, denied = ...

local encode, decode = json.encode, json.decode
local error, type, pack, unpack, tostring = error, type, table.pack, table.unpack, tostring
local resume, create, room, finish = budget.resume, budget.create, budget.room, budget.finish
local status, isyieldable = coroutine.status, coroutine.isyieldable
local setmetatable, concat, gmatch, rawget = setmetatable, table.concat, string.gmatch, rawget

local _ENV = globals
globals.json = json

-- Modules: only what scripts have anyway, and what they put into `preload` themselves. Nothing is searched for or opened.
-- `require` keeps its own two tables, as Lua's does: another `package` changes nothing.
local loaded = {
  _G = globals, json = json, coroutine = coroutine, math = math, os = os, string = string, table = table, utf8 = utf8,
}
local preload = {}
package = { loaded = loaded, preload = preload }
loaded.package = package

function require(name)
  if type(name) == "number" then name = tostring(name) end
  if type(name) ~= "string" then error("bad argument #1 to 'require' (string expected)", 2) end
  local module = loaded[name]
  if module then return module end
  local loader = preload[name]
  if type(loader) ~= "function" then
    error("module '" .. name .. "' not found:\n\tno field package.preload['" .. name .. "']", 2)
  end
  module = loader(name, ":preload:")
  if module ~= nil then loaded[name] = module end
  if loaded[name] == nil then loaded[name] = true end
  return loaded[name], ":preload:"
end

-- Promises. Calls of the host block, so a promise is always settled when the script gets it.

local settled = setmetatable({}, { __mode = "k" })
local methods = {}
local promises = { __index = methods, __name = "Promise", __metatable = false }

local function promise(ok, value)
  local made = setmetatable({}, promises)
  settled[made] = { ok, value }
  return made
end

local function result_of(value)
  while settled[value] do
    local result = settled[value]
    if not result[1] then error(result[2], 0) end
    value = result[2]
  end
  return value
end

function methods.await(self)
  if not isyieldable() then error("attempt to yield from outside a coroutine", 0) end
  if not settled[self] then error("only a promise can be awaited", 0) end
  return result_of(self)
end

function async(body)
  return function(...)
    local thread = create(body)
    local results = pack(resume(thread, ...))
    while results[1] and status(thread) ~= "dead" do
      results = pack(resume(thread, unpack(results, 2, results.n)))
    end
    return promise(results[1], results[2])
  end
end

local async = async

-- Functions of the host

local function ask(name, ...)
  room()
  local value = call(name, ...)
  local problem = state()
  if problem == nil then return true, value end
  if problem == denied then return false end
  error(problem, 0)
end

local kinds = {}

function kinds.value(name)
  return function(...)
    local ok, value = ask(name, ...)
    if ok then return value end
  end
end

function kinds.void(name)
  return function(...)
    ask(name, ...)
  end
end

function kinds.promise(name)
  return function(...)
    local _, value = ask(name, ...)
    return promise(true, value)
  end
end

function kinds.strict_promise(name)
  return function(...)
    local ok, value = ask(name, ...)
    if ok then return promise(true, value) end
    return nil
  end
end

function kinds.table_promise(name)
  return function(...)
    local ok, value = ask(name, ...)
    if ok then value = decode(value) end
    return promise(true, value)
  end
end

for name, kind in gmatch(functions, "(%w+):([%w_]+)") do
  globals[name] = kinds[kind](name)
end

local getChatMain, getFullChatMain, setFullChatMain = getChatMain, getFullChatMain, setFullChatMain
local getLoreBooksMain, loadLoreBooksMain, LLMMain, axLLMMain = getLoreBooksMain, loadLoreBooksMain, LLMMain, axLLMMain
local getCharacterImageMain, getPersonaImageMain, logMain = getCharacterImageMain, getPersonaImageMain, logMain
local getChatVar, setChatVar, await = getChatVar, setChatVar, methods.await

function getChat(id, index) return decode(getChatMain(id, index)) end

function getFullChat(id) return decode(getFullChatMain(id)) end

function setFullChat(id, messages) setFullChatMain(id, encode(messages)) end

function getLoreBooks(id, name) return decode(getLoreBooksMain(id, name)) end

function loadLoreBooks(id) return decode(await(loadLoreBooksMain(id))) end

-- Without low level access there is nothing to decode, which raises, as in RisuAI.
function LLM(id, messages, multimodal) return decode(await(LLMMain(id, encode(messages), multimodal or false))) end

function axLLM(id, messages, multimodal) return decode(await(axLLMMain(id, encode(messages), multimodal or false))) end

function getCharacterImage(id) return await(getCharacterImageMain(id)) end

function getPersonaImage(id) return await(getPersonaImageMain(id)) end

-- A variable that is not set reads as `null`, which is nil; other text that is not JSON raises.
function getState(id, name) return decode(getChatVar(id, "__" .. name)) end

function setState(id, name, value) setChatVar(id, "__" .. name, encode(value)) end

function log(value) logMain(encode(value)) end

local function printed(between, ...)
  local parts = pack(...)
  for index = 1, parts.n do parts[index] = tostring(parts[index]) end
  logMain(encode(concat(parts, between)))
end

function print(...) printed("\t", ...) end

function io.write(...)
  printed("", ...)
  return io.stdout
end

io.stdout = {
  write = function(self, ...)
    printed("", ...)
    return self
  end,
}
io.stderr = io.stdout

-- Listeners

local listeners = { editRequest = {}, editDisplay = {}, editInput = {}, editOutput = {} }

function listenEdit(kind, listener)
  local list = listeners[kind]
  if not list then error("Invalid type", 0) end
  list[#list + 1] = listener
end

local listen = async(function(kind, key, value, meta)
  local edited, about = decode(value), decode(meta)
  local list = listeners[kind] or {}
  for index = 1, #list do
    edited = result_of(list[index](key, edited, about))
  end
  return encode(edited)
end)

callListenMain = listen

local function handle(name, ...)
  local handler = rawget(globals, name)
  if type(handler) ~= "function" then return nil end
  return (result_of(handler(...)))
end

local function call_listeners(...) return result_of(listen(...)) end

return function(...) return finish(handle, ...) end, function(...) return finish(call_listeners, ...) end
