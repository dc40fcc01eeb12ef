//! Random commands on hashes with fields that expire, in the language of
//! [`commands`](super::commands). No time passes during a test, so that compared results do not
//! depend on it.

/// Lines of commands, which Redis 7.0 lacks.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    (
        "times of fields",
        "HEXPIRE hkey far FIELDS 1 mem
        HEXPIRE hkey far [(NX | XX)] FIELDS 2 mem mem
        HPEXPIRE hkey farms FIELDS 3 mem mem mem
        HEXPIREAT hkey at [(NX | XX | GT | LT)] FIELDS 2 mem mem
        HPEXPIREAT hkey atms [(NX | XX | GT | LT)] FIELDS 2 mem mem
        HPEXPIREAT hkey (atms | 0 | 1 | a | -1) FIELDS 1 mem
        HEXPIRE hkey (0 | badtime) FIELDS 1 mem
        near=20 HTTL hkey FIELDS 3 mem mem mem
        near=20000 HPTTL hkey FIELDS 2 mem mem
        near=20 HEXPIRETIME hkey FIELDS 3 mem mem mem
        near=20000 HPEXPIRETIME hkey FIELDS 3 mem mem mem
        HPERSIST hkey FIELDS 2 mem mem
        HGETEX hkey FIELDS 2 mem mem
        HGETEX hkey (EX far | PX farms | EXAT at | PXAT atms | PERSIST) FIELDS 2 mem mem
        HGETEX hkey (EX 0 | PXAT 1) FIELDS 1 mem
        HSETEX hkey FIELDS 2 mem val mem val
        HSETEX hkey [(FNX | FXX)] (EX far | PXAT atms | KEEPTTL) FIELDS 2 mem val mem val
        HSETEX hkey (EX far | EXAT at) [(FNX | FXX)] FIELDS 1 mem val
        HSETEX hkey (EX 0 | PXAT 1) FIELDS 1 mem val
        HGETDEL hkey FIELDS 2 mem mem
        HEXPIRE hkey far FIELDS (0 | 1 | 2 | 3 | a) mem mem
        HGETEX hkey FIELDS (0 | 1 | 2 | 3 | a) mem mem
        HSETEX hkey FIELDS (0 | 1 | 2 | 3 | a) mem val mem val
        HGETDEL hkey FIELDS (0 | 1 | 2 | 3 | a) mem mem",
    ),
    (
        "hashes",
        "HSET hkey (mem val)+
        HSETNX hkey mem val
        HMGET hkey mem+
        ~~ HGETALL hkey
        ~ HKEYS hkey
        HDEL hkey mem+
        HLEN hkey
        HEXISTS hkey mem
        HSTRLEN hkey mem
        HINCRBY hkey mem int
        HINCRBYFLOAT hkey mem (0.5 | 1 | -2.25)
        ! ~ HRANDFIELD hkey 1000
        ! scan HSCAN hkey 0 COUNT 10000 NOVALUES
        ! scanpairs HSCAN hkey 0 COUNT 10000",
    ),
    (
        "keys",
        "DEL hkey
        EXISTS hkey
        ! RENAME hkey hkey
        COPY hkey hkey [REPLACE]
        SET hkey val
        PERSIST hkey
        EXPIREAT hkey at",
    ),
    ("transactions", "MULTI\nEXEC"),
];

/// The words of each kind that a line of a command may name.
pub(super) const KINDS: &[(&str, &[&str])] = &[("hkey", &["k1", "k1", "k2", "k3"])];
