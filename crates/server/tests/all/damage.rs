//! Files that are damaged, missing, too old or foreign are refused by a message that names the file
//! and a remedy, or they give a state that was once acknowledged. Nothing of them is lost.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::durability::{self, run};
use nearfield_server::acl::User;
use nearfield_server::commands::TABLE;
use nearfield_server::config::{ConfigFileContents, ServerOptions};
use nearfield_server::log::{Damage, LogSyncPolicy};
use nearfield_server::net;
use nearfield_server::persistence;
use nearfield_server::persistence::load::LoadError;
use nearfield_server::resp::request::split_words;
use nearfield_server::server::ServerCore;
use nearfield_server_testkit::connection::{encode, encode_lines};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::state::{State, state};
use nearfield_server_testkit::steps::eventually;
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const MANIFEST: &str = "nearfield.manifest";

fn options(folder: &Path, log: bool) -> ServerOptions {
    ServerOptions {
        threads: 1,
        ..durability::options(folder, log, LogSyncPolicy::EverySecond)
    }
}

/// Loads a folder into a server that serves no clients.
fn load(folder: &TestkitFolder, log: bool, damage: Damage) -> Result<State, LoadError> {
    let mut options = options(&folder.0, log);
    options.persistence.damage = damage;
    let server = UnservedServer::new(options);
    persistence::start(&server, nearfield_server::commands::repeat)?;
    Ok(everything(&server))
}

/// Returns the keys of a server, and its libraries of functions under a database that does not
/// exist.
fn everything(server: &ServerCore) -> State {
    let mut state = state(&server.keyspace);
    for (number, code) in server.functions.codes().iter().enumerate() {
        let place = (usize::MAX, number.to_be_bytes().to_vec());
        state.insert(place, (code.escape_ascii().to_string(), None));
    }
    state
}

type Files = BTreeMap<String, Vec<u8>>;

fn files(folder: &TestkitFolder) -> Files {
    let entries = fs::read_dir(&folder.0).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let named = files.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let named = named.filter(|(name, _)| name != "nearfield.lock");
    named
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

fn folder_of(files: &Files) -> TestkitFolder {
    let folder = TestkitFolder::new();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    folder
}

/// Returns the files of a server after a small history with a base, and the states between its
/// commands.
fn history(rewrites: usize, commands: usize) -> (Vec<Files>, Vec<State>) {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(options(&folder.0, true));
    let mut connection = server.connect();
    let (mut left, mut states) = (vec![], vec![State::new()]);
    for round in 0..=rewrites {
        for number in 0..commands {
            let value = "value ".repeat(number % 40);
            let line = match number % 6 {
                0 => format!("RPUSH list {round} {number}"),
                1 => format!("XADD stream {}-1 f {number}", 1 + round * commands + number),
                2 => format!("HSET hash f{number} {value}"),
                3 => format!("ZADD zset {number} m{}", number % 7),
                4 => format!("DEL k{}", number - 2),
                _ => format!("SET k{number} {}", value.trim().replace(' ', "-")),
            };
            run(&mut connection, line.trim());
            states.push(everything(&server.server));
            if number % 10 == 7 {
                let name = number % 3;
                let body = format!("function() return {number} end");
                let code =
                    format!("#!lua name=l{name}\nredis.register_function('f{name}', {body})");
                let words: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()];
                connection.command(&words).expect("a reply");
                states.push(everything(&server.server));
            }
        }
        server.server.log.flush().unwrap();
        left.push(files(&folder));
        if round < rewrites {
            run(&mut connection, "BGREWRITEAOF");
            let status = || server.server.persistence.status();
            eventually("a rewrite", || status().rewrites == round as u64 + 1);
        }
    }
    drop(server);
    left.push(files(&folder));
    (left, states)
}

/// Fails unless a start is refused, the message names the file and a remedy, and all files are
/// unchanged.
#[track_caller]
fn assert_refused(folder: &TestkitFolder, log: bool, name: &str) {
    let before = files(folder);
    let error = load(folder, log, Damage::Refuse).expect_err("a refusal");
    let text = error.to_string();
    assert!(text.contains(name), "{name}: {text}");
    let remedies = [
        "estore",
        "ove the",
        "ove it",
        "Start the",
        "--dir",
        "not a regular file",
    ];
    assert!(remedies.iter().any(|it| text.contains(it)), "{text}");
    assert!(files(folder) == before, "{text}: files have changed");
}

#[test]
fn without_a_manifest_nothing_is_lost_and_another_can_be_made() {
    let (left, states) = history(1, 60);
    let last = states.last().unwrap();
    for mut files in [left[0].clone(), left[1].clone()] {
        let whole = load(&folder_of(&files), true, Damage::Refuse).unwrap();
        files.remove(MANIFEST);
        let folder = folder_of(&files);
        for _ in 0..2 {
            assert_refused(&folder, true, MANIFEST);
            assert_refused(&folder, false, MANIFEST);
        }
        assert_eq!(load(&folder, true, Damage::Repair).unwrap(), whole);
        assert_eq!(load(&folder, true, Damage::Refuse).unwrap(), whole);
    }
    // An old manifest with newer files; one of a newer version, an empty one, and foreign ones.
    let mut files = left[1].clone();
    let newer = b"nearfield-log 4\nlog log-1.aof\ncrc32c 00000000\n".to_vec();
    let body = newer.len() - "crc32c 00000000\n".len();
    let checksum = nearfield_server::log::frame::checksum(&newer[..body]);
    let newer = [
        &newer[..body],
        format!("crc32c {checksum:08x}\n").as_bytes(),
    ]
    .concat();
    let with_old = [left[0].clone(), left[1].clone()].map(|it| it[MANIFEST].clone());
    for manifest in [
        newer,
        Vec::new(),
        b"nearfield-log 2\n".to_vec(),
        vec![0; 80],
    ] {
        files.insert(MANIFEST.to_owned(), manifest);
        assert_refused(&folder_of(&files), true, MANIFEST);
    }
    files.extend(left[0].clone());
    files.insert(MANIFEST.to_owned(), with_old[0].clone());
    let folder = folder_of(&files);
    assert_refused(&folder, true, MANIFEST);
    assert_eq!(&load(&folder, true, Damage::Repair).unwrap(), last);
    // A manifest that names missing files.
    for missing in left[1].keys().filter(|name| *name != MANIFEST) {
        let mut files = left[1].clone();
        files.remove(missing);
        assert_refused(&folder_of(&files), true, missing);
    }
}

#[test]
fn a_log_that_lacks_bytes_is_refused_and_a_repair_keeps_what_it_cuts_off() {
    let (left, states) = history(0, 120);
    let whole = left[0]["log-1.aof"].clone();
    let opening = nearfield_server::log::frame::OPENING_BYTES as usize;
    for from in (0..whole.len() - 1100).step_by(whole.len() / 12) {
        let mut files = left[0].clone();
        let without = [&whole[..from], &whole[from + 1000..]].concat();
        files.insert("log-1.aof".to_owned(), without.clone());
        let folder = folder_of(&files);
        assert_refused(&folder, true, "damaged at offset");
        let repaired = load(&folder, true, Damage::Repair).unwrap();
        assert!(states.contains(&repaired), "from {from}");
        let files = self::files(&folder);
        let kept: Vec<_> = files
            .iter()
            .filter(|(name, _)| name.contains("cut-at"))
            .collect();
        let [(name, kept)] = kept[..] else {
            panic!("{:?}", files.keys())
        };
        let offset = name
            .split(['-', '.'])
            .filter_map(|it| it.parse().ok())
            .nth(1);
        assert_eq!([&without[..offset.unwrap()], kept].concat(), without);
    }
    for length in [0, 1, opening - 1] {
        let mut files = left[0].clone();
        files.insert("log-1.aof".to_owned(), whole[..length].to_vec());
        let folder = folder_of(&files);
        assert_refused(&folder, true, "log-1.aof: damaged at offset 0");
        assert_eq!(load(&folder, true, Damage::Repair).unwrap(), State::new());
        assert_eq!(load(&folder, true, Damage::Refuse).unwrap(), State::new());
    }
    // A last frame that a power failure has torn is removed without an option, and kept, too.
    let mut files = left[0].clone();
    files.insert(
        "log-1.aof".to_owned(),
        [&whole[..whole.len() - 40], &[0; 5000]].concat(),
    );
    let folder = folder_of(&files);
    let loaded = load(&folder, true, Damage::Refuse).unwrap();
    assert_eq!(loaded, states[states.len() - 2]);
    assert!(
        self::files(&folder)
            .keys()
            .any(|name| name.contains("cut-at"))
    );
}

#[test]
fn a_value_that_looks_like_a_trailer_does_not_make_a_torn_tail_refused() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(options(&folder.0, true));
    let mut connection = server.connect();
    run(&mut connection, "SET before 1");
    server.server.log.flush().unwrap();
    let before = fs::read(folder.join("log-1.aof")).unwrap().len();
    let expected = state(&server.server.keyspace);
    // Trailers of all forms: one of an older server, and that of this log's first frame except for
    // its number, which no client knows.
    let mut value = Vec::new();
    nearfield_server::log::frame::seal(&mut value, None, before as u64, u64::MAX);
    value.extend(nearfield_server::log::frame::opening(
        nearfield_server::log::frame::LogTag(7),
    ));
    value.extend(vec![b'x'; 1000]);
    connection.command(&[b"SET", b"key", &value]).unwrap();
    drop(server);
    let files = files(&folder);
    let whole = &files["log-1.aof"];
    for length in [before + 20, whole.len() - 900, whole.len() - 5] {
        let mut torn = files.clone();
        torn.insert("log-1.aof".to_owned(), whole[..length].to_vec());
        let folder = folder_of(&torn);
        assert_eq!(load(&folder, true, Damage::Refuse).unwrap(), expected);
    }
}

#[test]
fn a_log_of_an_older_server_is_gone_on_with() {
    let folder = TestkitFolder::new();
    let mut log = Vec::new();
    for line in ["", "SET a 1"] {
        let mut body = match line {
            "" => Vec::new(),
            line => encode_lines([line]),
        };
        nearfield_server::log::frame::seal(&mut body, None, log.len() as u64, 0);
        log.extend(body);
    }
    let body = "nearfield-log 2\nlog log-1.aof\n";
    let checksum = nearfield_server::log::frame::checksum(body.as_bytes());
    fs::write(
        folder.join(MANIFEST),
        format!("{body}crc32c {checksum:08x}\n"),
    )
    .unwrap();
    fs::write(folder.join("log-1.aof"), &log).unwrap();
    let server = Nearfield::start(options(&folder.0, true));
    let mut connection = server.connect();
    run(&mut connection, "SET b 2");
    server.server.log.flush().unwrap();
    assert_eq!(
        load(&folder_of(&files(&folder)), true, Damage::Refuse)
            .unwrap()
            .len(),
        2
    );
    // After the next rewrite its frames are those of this server.
    run(&mut connection, "BGREWRITEAOF");
    let status = || server.server.persistence.status();
    eventually("a rewrite", || status().rewrites == 1);
    run(&mut connection, "SET c 3");
    let expected = state(&server.server.keyspace);
    drop((connection, server));
    let manifest = fs::read_to_string(folder.join(MANIFEST)).unwrap();
    assert!(manifest.starts_with("nearfield-log 3\n"), "{manifest}");
    assert_eq!(load(&folder, true, Damage::Refuse).unwrap(), expected);
}

#[test]
fn what_others_have_left_is_read_as_a_whole_or_refused() {
    let write = |folder: &TestkitFolder, name: &str, commands: &[&str], missing: usize| {
        let mut log = encode_lines(commands);
        log.truncate(log.len() - missing);
        fs::create_dir_all(folder.join("appendonlydir")).unwrap();
        fs::write(folder.join(name), log).unwrap();
    };
    let one = "appendonlydir/appendonly.aof.1.incr.aof";
    let two = "appendonlydir/appendonly.aof.2.incr.aof";
    let manifest = "appendonlydir/appendonly.aof.manifest";
    let both = "file appendonly.aof.1.incr.aof seq 1 type i\n\
                file appendonly.aof.2.incr.aof seq 2 type i\n";
    // Half a transaction at the end is not executed.
    let folder = TestkitFolder::new();
    write(&folder, one, &["SET a 1"], 0);
    write(&folder, two, &["SET b 1", "MULTI", "SET c 1", "SET d 1"], 0);
    assert_refused(&folder, true, "appendonly.aof.manifest");
    fs::write(folder.join(manifest), both).unwrap();
    assert_eq!(load(&folder, true, Damage::Refuse).unwrap().len(), 2);
    // Only the last file may be incomplete.
    let folder = TestkitFolder::new();
    write(&folder, one, &["SET a 1", "SET a 2"], 3);
    write(&folder, two, &["SET b 1"], 0);
    fs::write(folder.join(manifest), both).unwrap();
    let error = load(&folder, true, Damage::Refuse).unwrap_err();
    assert!(matches!(error, LoadError::Damaged { .. }), "{error}");
    fs::write(folder.join(manifest), "").unwrap();
    assert!(load(&folder, true, Damage::Refuse).is_err());
    // It is unknown which of two states is the latest.
    let folder = TestkitFolder::new();
    write(&folder, one, &["SET a 1"], 0);
    fs::write(folder.join("dump.rdb"), b"").unwrap();
    assert_refused(&folder, true, "dump.rdb: the directory also has");
    // Files that are not regular.
    let folder = TestkitFolder::new();
    fs::create_dir(folder.join("dump.rdb")).unwrap();
    assert_refused(&folder, false, "dump.rdb");
    let folder = TestkitFolder::new();
    std::os::unix::fs::symlink(folder.join("nowhere"), folder.join("dump.rdb")).unwrap();
    assert!(load(&folder, false, Damage::Refuse).is_err());
    let folder = TestkitFolder::new();
    fs::create_dir_all(folder.join(manifest)).unwrap();
    let error = load(&folder, true, Damage::Refuse).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_log_of_redis_is_read_in_parts() {
    // It is longer than any memory, and its first command never ends.
    let folder = TestkitFolder::new();
    let path = folder.join("appendonly.aof");
    fs::File::create(&path).unwrap().set_len(1 << 42).unwrap();
    let error = load(&folder, true, Damage::Refuse).unwrap_err();
    assert!(
        matches!(error, LoadError::Damaged { offset: 0, .. }),
        "{error}"
    );
    // Commands and transactions that are longer than a part, and commands across its end.
    let long = "v".repeat(3 << 20);
    let mut lines = vec![
        format!("SET a {long}"),
        "MULTI".to_owned(),
        format!("SET b {long}"),
        format!("SET c {long}"),
        "EXEC".to_owned(),
    ];
    lines.resize(50_000, "INCR n".to_owned());
    let mut log = Vec::new();
    for line in &lines {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        encode(&mut log, &words);
    }
    let folder = TestkitFolder::new();
    fs::write(folder.join("appendonly.aof"), &log).unwrap();
    let loaded = load(&folder, true, Damage::Refuse).unwrap();
    let value = |key: &str| &loaded[&(0, key.as_bytes().to_vec())].0;
    for key in ["a", "b", "c"] {
        assert!(*value(key) == format!("string {long}"), "{key}");
    }
    assert_eq!(value("n"), &format!("string {}", lines.len() - 5));
    assert_eq!(loaded.len(), 4);
}

/// Changes some bytes of a file.
fn damage(random: &mut SmallRng, bytes: &mut Vec<u8>) {
    let length = bytes.len().max(1);
    let at = random.random_range(0..length);
    let longest = [1, 2, 16, 1000][random.random_range(0..4)];
    let count = random.random_range(1..=longest);
    let end = (at + count).min(bytes.len());
    match random.random_range(0..7) {
        0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
        2 => drop(bytes.drain(at.min(end)..end)),
        3 => {
            let inserted: Vec<u8> = (0..count).map(|_| random.random()).collect();
            bytes.splice(at.min(end)..at.min(end), inserted);
        }
        4 => bytes[at.min(end)..end].fill(0),
        5 => bytes.truncate(at),
        _ => {
            let again = bytes[at.min(end)..end].to_vec();
            bytes.splice(at.min(end)..at.min(end), again);
        }
    }
}

#[test]
fn damage_anywhere_is_refused_or_gives_what_was_acknowledged() {
    let (left, states) = history(1, 60);
    let snapshot = TestkitFolder::new();
    {
        let server = Nearfield::start(options(&snapshot.0, false));
        let mut connection = server.connect();
        for number in 0..40 {
            run(
                &mut connection,
                &format!("RPUSH list{} value:{number}", number % 5),
            );
        }
        let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
        connection
            .command(&[b"FUNCTION", b"LOAD", library.as_bytes()])
            .unwrap();
        run(&mut connection, "SAVE");
    }
    let dump = files(&snapshot);
    let dumped = load(&folder_of(&dump), false, Damage::Refuse).unwrap();
    let cases = [(&left[0], true), (&left[1], true), (&dump, false)];
    let (mut refused, mut same, mut earlier) = (0, 0, 0);
    seeds::each(90, |seed| {
        let random = &mut SmallRng::seed_from_u64(seed);
        let &(whole, log) = cases.choose(random).unwrap();
        let names: Vec<&String> = whole.keys().collect();
        let name = (*names.choose(random).unwrap()).clone();
        let mut files = whole.clone();
        damage(random, files.get_mut(&name).unwrap());
        let folder = folder_of(&files);
        match load(&folder, log, Damage::Refuse) {
            Ok(state) if files[&name] == whole[&name] => drop(state),
            Ok(state) if log => {
                // A log may be cut off at its end, where that cannot be detected; but nowhere else.
                assert!(states.contains(&state), "{name}");
                let is_whole = Some(&state) == states.last();
                assert!(name.ends_with(".aof") || is_whole, "{name}");
                match states.iter().position(|it| *it == state) {
                    Some(at) if at + 1 == states.len() => same += 1,
                    _ => earlier += 1,
                }
            }
            // Bytes after the checksum are not read.
            Ok(state) => {
                assert_eq!(state, dumped, "{name}");
                same += 1;
            }
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                assert!(text.contains(&*name), "{name}: {text}");
                assert!(text.contains("estore"), "{text}");
                let has_place = text.contains("offset") || name == MANIFEST || !log;
                assert!(has_place || name.ends_with("rdb"), "{text}");
                assert!(self::files(&folder) == files, "{text}: files have changed");
            }
        }
    });
    eprintln!("damaged files: {refused} refused, {earlier} read in part, {same} read in full");
    assert!(refused > earlier + same);
}

/// Damages a text differently for each seed, and passes the damaged ones to `check`.
fn damaged_texts(whole: &[u8], mut check: impl FnMut(&[u8])) {
    seeds::each(300, |seed| {
        let random = &mut SmallRng::seed_from_u64(seed);
        let mut text = whole.to_vec();
        damage(random, &mut text);
        if text != whole {
            check(&text);
        }
    });
}

/// Returns the lines of a text except empty ones and comments.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"))
}

#[test]
fn damage_anywhere_in_a_file_of_users_is_refused_or_gives_what_its_lines_say() {
    let folder = TestkitFolder::new();
    let path = folder.join("users.acl");
    let mut options = options(&folder.0, false);
    options.acl_file = Some(path.clone());
    let server = UnservedServer::new(options);
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let whole = format!(
        "# users\nuser default off sanitize-payload resetchannels -@all\n\
         user ann on #{hash} ~app:* %R~log:* &news.* -@all +@read +set +config|get (~b:* +get)\n\
         user b\u{fc}rger on nopass ~* &* +@all -debug -config|set\n\
         user eve off >secret resetkeys +select|0\n"
    );
    let (mut refused, mut read) = (0, 0);
    fs::write(&path, &whole).unwrap();
    server.acl.load_at_start(&[]).unwrap();
    damaged_texts(whole.as_bytes(), |text| {
        let before = server.acl.users();
        fs::write(&path, text).unwrap();
        if let Err(error) = server.acl.load_at_start(&[]) {
            refused += 1;
            let error = net::ServeError::from(error).to_string();
            assert!(error.contains("users.acl:"), "{error}");
            assert!(error.contains("restore"), "{error}");
            assert_eq!(
                server.acl.users(),
                before,
                "users of a file that is refused"
            );
            return;
        }
        read += 1;
        assert!(!text.contains(&0), "bytes that were never written");
        // Each line made one user, and each user except the default one is that of a line.
        let users = server.acl.users();
        let mut named = BTreeSet::from([b"default".to_vec()]);
        for line in lines(text) {
            let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
            let words: Vec<&[u8]> = words.into_iter().filter(|it| !it.is_empty()).collect();
            let mut user = User::new(words[1], false);
            user.apply_all(TABLE.registry(), &words[2..]).unwrap();
            let served = users.iter().find(|it| it.name == user.name);
            let served = served.expect("the user of a line");
            assert_eq!(served.describe(), user.describe());
            named.insert(user.name);
        }
        assert_eq!(users.len(), named.len());
    });
    eprintln!("damaged files of users: {refused} refused, {read} read unchanged");
    assert!(refused > 20 && read > 20, "{refused} and {read}");
}

#[test]
fn damage_anywhere_in_a_configuration_is_refused_or_gives_what_its_lines_say() {
    let folder = TestkitFolder::new();
    let path = folder.join("server.conf");
    let whole = format!(
        "# a server\nbind 127.0.0.1 -::1\nport 7000\ndir {}\ntimeout 0\nsave 3600 1 300 100\n\
         appendonly yes\nappendfsync everysec\nauto-aof-rewrite-percentage 100\n\
         maxmemory 100mb\nmaxmemory-policy allkeys-lru\nmaxclients 1000\nhz 10\n\
         requirepass \"a \\x00b\"\nnotify-keyspace-events KEA\ndatabases 16\n\
         client-output-buffer-limit normal 0 0 0 pubsub 32mb 8mb 60\n\
         user ann on +@read ~a:*\nuser eve off\n",
        folder.0.display()
    );
    let (mut refused, mut read) = (0, 0);
    fs::write(&path, &whole).unwrap();
    ConfigFileContents::read(&path).unwrap();
    damaged_texts(whole.as_bytes(), |text| {
        fs::write(&path, text).unwrap();
        let settings = match ConfigFileContents::read(&path) {
            Ok(settings) => settings,
            Err(error) => {
                refused += 1;
                let error = error.to_string();
                assert!(error.contains("server.conf, line "), "{error}");
                assert!(error.contains("restore"), "{error}");
                return;
            }
        };
        read += 1;
        assert!(!text.contains(&0), "bytes that were never written");
        // Each line is a value or a user, and the last value of a parameter counts.
        let said = settings.values.len() + settings.users.len();
        assert_eq!(said, lines(text).count());
        let mut last = BTreeMap::new();
        for line in lines(text) {
            let mut words = split_words(line).unwrap();
            let name = String::from_utf8(words.remove(0)).unwrap().to_lowercase();
            last.insert(name, words.join(&b' '));
        }
        for (name, value) in last {
            if !["user", "save", "tier"].contains(&&*name) {
                let read = settings.bytes(&name);
                assert_eq!(read, Some(&*value), "{name}");
            }
        }
        // The server can be made of these settings, or they are refused with a reason.
        if let Ok(options) = ServerOptions::from_settings(settings) {
            drop(UnservedServer::new(options));
        }
    });
    eprintln!("damaged configurations: {refused} refused, {read} read unchanged");
    assert!(refused > 20 && read > 20, "{refused} and {read}");
}

#[test]
fn a_log_of_redis_is_taken_over() {
    let folder = TestkitFolder::new();
    let aof = folder.join("appendonlydir");
    fs::create_dir(&aof).unwrap();
    let manifest = "file appendonly.aof.1.base.rdb seq 1 type b\n\
                    file appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(aof.join("appendonly.aof.manifest"), manifest).unwrap();
    let mut writer = nearfield_server::rdb::RdbWriter::new(Vec::new()).unwrap();
    writer.select(0).unwrap();
    writer.string(b"old", b"1", Default::default()).unwrap();
    let base = writer.finish().unwrap();
    fs::write(aof.join("appendonly.aof.1.base.rdb"), &base).unwrap();
    let mut log = Vec::new();
    let commands: [&[&str]; 6] = [
        &["SELECT", "2"],
        &["SET", "new", "2"],
        &["MULTI"],
        &["SET", "x", "3"],
        &["EXEC"],
        &["SET", "cut", "off"],
    ];
    for words in commands {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        encode(&mut log, &words);
    }
    fs::write(aof.join("appendonly.aof.1.incr.aof"), &log[..log.len() - 3]).unwrap();
    let loaded = load(&folder, true, Damage::Refuse).unwrap();
    let keys: Vec<_> = loaded
        .keys()
        .map(|(number, key)| (*number, &key[..]))
        .collect();
    assert_eq!(keys, [(0, &b"old"[..]), (2, b"new"), (2, b"x")]);
    // From then on its own log counts.
    fs::remove_dir_all(&aof).unwrap();
    assert_eq!(load(&folder, true, Damage::Refuse).unwrap(), loaded);
    // A single file, as before Redis 7.
    let other = TestkitFolder::new();
    fs::write(other.join("appendonly.aof"), [base, log].concat()).unwrap();
    assert_eq!(load(&other, true, Damage::Refuse).unwrap().len(), 4);
}
