-- Builds the environment of scripts. Called once with the functions that the server provides.
-- Returns the environment, its table of globals, and the functions that load a library, clean up
-- after a script, and restore the settings of the collector.
--
-- Scripts must not change tables that outlive them. Lua 5.1 has no read-only tables, so scripts get
-- empty tables in front of the real ones.

local native = ...
local error, getmetatable, setmetatable, next, type = error, getmetatable, setmetatable, next, type
local pcall, xpcall, rawget, rawset, tostring = pcall, xpcall, rawget, rawset, tostring
local resume = coroutine.resume
local concat = table.concat

local READONLY = "Attempt to modify a readonly table"

-- Maps each table that scripts see to the real table behind it.
local real = {}

local function refuse()
    error(READONLY, 2)
end

local function protect(behind)
    local seen = { __index = behind, __newindex = refuse, __metatable = false }
    local front = setmetatable({}, seen)
    real[front] = behind
    return front, seen
end

-- Makes the lookup of a missing name in a table an error.
local function strict(table)
    return setmetatable(table, {
        __index = function(_, name)
            local what = "nonexistent global variable '" .. tostring(name) .. "'"
            error("Script attempted to access " .. what, 2)
        end,
    })
end

local globals = strict({})
local environment, seen = protect(globals)

for _, name in next, {
    "assert", "error", "gcinfo", "getmetatable", "ipairs", "rawequal", "select",
    "tonumber", "tostring", "type", "unpack", "_VERSION",
} do
    globals[name] = rawget(_G, name)
end
globals._G = environment

-- Only `table.insert` writes into a table past its metatable. Until a script may have a reference
-- to it, by one of the functions below or by its name, no table needs cleaning.
local function behind(table)
    local found = real[table]
    if found then
        native.untidied()
    end
    return found
end

function globals.rawget(table, key)
    return rawget(behind(table) or table, key)
end

function globals.rawset(table, key, value)
    if real[table] then
        error(READONLY, 0)
    end
    return rawset(table, key, value)
end

function globals.setmetatable(table, metatable)
    if real[table] then
        error(READONLY, 0)
    end
    return setmetatable(table, metatable)
end

function globals.next(table, key)
    return next(behind(table) or table, key)
end

local function step(front, key)
    return next(real[front], key)
end

local pairs = pairs
function globals.pairs(table)
    if behind(table) then
        return step, table, nil
    end
    return pairs(table)
end

-- Errors of the server's functions are not Lua values; they are translated where a script gets
-- them. A script that must be killed gets none.
local function finish(ok, ...)
    if ok then
        return true, ...
    end
    local value = native.translate((...))
    if type(value) == "table" and type(value.err) == "string" then
        value = value.err
    end
    return false, value
end

function globals.pcall(...)
    return finish(pcall(...))
end

-- A script does not continue either if its handler has failed because of that.
local function leave(ok, ...)
    if not ok then
        native.translate(nil)
    end
    return ok, ...
end

function globals.xpcall(run, explain)
    return leave(xpcall(run, function(value)
        return explain(native.translate(value))
    end))
end

-- Every change of the collector's settings must be undone after the script.
local collect = collectgarbage
function globals.collectgarbage(option, ...)
    if option ~= nil and option ~= "count" and option ~= "collect" then
        native.retuned()
    end
    return collect(option, ...)
end

function globals.loadstring(text, name)
    return native.load(environment, text, name)
end

function globals.load(read, name)
    if type(read) ~= "function" then
        error("bad argument #1 to 'load' (function expected, got " .. type(read) .. ")", 2)
    end
    local parts = {}
    while true do
        local part = read()
        if part == nil or part == "" then
            break
        end
        parts[#parts + 1] = part
    end
    return native.load(environment, concat(parts), name or "=(load)")
end

-- Strings reach their functions by their metatable, so no script may see it.
getmetatable("").__metatable = false

math.random, math.randomseed = native.random, native.randomseed
function coroutine.resume(...)
    return finish(resume(...))
end

for _, name in next, { "string", "math", "coroutine" } do
    globals[name] = protect(rawget(_G, name))
end
local tables, seen_of_tables = table, nil
globals.table, seen_of_tables = protect(tables)
function seen_of_tables.__index(_, name)
    if name == "insert" then
        native.untidied()
    end
    return tables[name]
end
globals.os = protect({ clock = native.clock })
for name, library in next, native.libraries do
    globals[name] = protect(library)
end
globals.server = globals.redis

-- The environment of a library while it is loaded.
local loading = strict({})
loading.redis = protect(strict(native.loading))
loading.server = loading.redis

-- Removes entries that a script has put into the tables in front, past their metatables. A function
-- of a library may keep `table.insert`, so each later call may leave entries.
local function tidy()
    for front in next, real do
        local key = next(front)
        while key ~= nil do
            rawset(front, key, nil)
            key = next(front)
        end
    end
end

-- Restores the initial settings of Lua's collector.
local function retune()
    collect("restart")
    collect("setpause", 200)
    collect("setstepmul", 200)
end

local locate = native.locate
local function load(library)
    seen.__index = loading
    local ok, value = xpcall(library, locate)
    seen.__index = globals
    tidy()
    return ok, value
end

return environment, globals, load, tidy, retune
