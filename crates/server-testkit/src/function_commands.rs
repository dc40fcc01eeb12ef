//! Random commands on functions and scripts, in the language of [`commands`](super::commands).
//!
//! Each library has only one function, because the order of several is not specified, and neither
//! is that of libraries.

/// Lines of commands.
pub(super) const COMMANDS: &[(&str, &str)] = &[(
    "functions",
    "! FUNCTION LOAD [REPLACE] flib
    ! FUNCTION LOAD [REPLACE] flib
    ! FUNCTION LOAD REPLACE flib
    ! FUNCTION LOAD [REPLACE] fbad
    FUNCTION DELETE fname
    ! ~ FUNCTION LIST [WITHCODE] [LIBRARYNAME (* | L* | nosuch)]
    FUNCTION FLUSH [(SYNC | ASYNC | x)]
    FUNCTION STATS
    FUNCTION KILL
    FCALL fun 1 key val
    FCALL fun 1 key val
    FCALL fun 2 key key val mem
    FCALL fun cnt key
    FCALL_RO fun 1 key val
    EVAL fscript 1 key val
    EVAL fscript 2 key key val mem
    EVAL_RO fscript 1 key val
    EVAL fscript cnt key",
)];

/// The words of each kind that a line of a command may name.
pub(super) const KINDS: &[(&str, &[&str])] = &[
    (
        "flib",
        &[
            "#!lua name=l1\nredis.register_function('f', function(keys, args) \
             return redis.call('set', keys[1], args[1] or 'none') end)",
            "#!lua name=l1\nredis.register_function{function_name='f', flags={'no-writes'}, \
             callback=function(keys, args) return redis.call('get', keys[1]) end}",
            "#!lua name=l2\nredis.register_function{function_name='g', flags={'no-writes'}, \
             description='reads', callback=function(keys, args) \
             return {redis.pcall('type', keys[1]), #keys, #args, args} end}",
            "#!lua name=l2\nlocal n = 0 redis.register_function('h', function(keys, args) \
             n = n + 1 return {n, redis.call('lpush', keys[1], unpack(args))} end)",
            "#!lua name=l3\nredis.register_function('G', function(keys, args) \
             redis.setresp(3) return redis.call('zscore', keys[1], args[1] or 'a') end)",
            "#!lua name=l3\nredis.register_function{function_name='h', flags={'no-writes'}, \
             callback=function(keys, args) redis.call('set', keys[1], '1') end}",
            "#!lua name=L4\nredis.register_function('i', function(keys, args) \
             for _, key in ipairs(keys) do redis.call('incr', key) end \
             error({err='MINE ' .. #args}) end)",
        ],
    ),
    (
        "fbad",
        &[
            "",
            "return 1",
            "#!lua name=l1",
            "#!lua name=l1\n",
            "#!lua name=l1\nx = 1",
            "#!lua name=l1\nredis.call('get', 'k1')",
            "#!lua name=l1\nredis.register_function('f')",
            "#!lua name=l1\nredis.register_function('f', function() end) error()",
            "#!lua name=l1\nno lua",
            "#!js name=l1\n",
            "#!lua\n",
        ],
    ),
    ("fname", &["l1", "l2", "l3", "L4", "l4", "", "f"]),
    ("fun", &["f", "f", "F", "g", "G", "h", "i", "nosuch", ""]),
    (
        "fscript",
        &[
            "return {KEYS, ARGV}",
            "return redis.call('get', KEYS[1])",
            "return redis.pcall('incr', KEYS[1])",
            "redis.call('del', KEYS[1]) return redis.call('rpush', KEYS[1], unpack(ARGV))",
            "redis.call('append', KEYS[1], ARGV[1]) error('late')",
            "#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], '1')",
            "#!lua\nreturn redis.call('type', KEYS[1])",
            "return redis.call('fcall', 'f', 1, KEYS[1], 'x')",
            "redis.call('select', 1) return redis.call('dbsize')",
            "return x",
            "return redis.call('exists', unpack(KEYS)) + #ARGV",
        ],
    ),
];
