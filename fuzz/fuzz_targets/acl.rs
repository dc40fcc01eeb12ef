//! No text makes the parser of access control rules panic, and a user is the same after its
//! description is read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_server::acl::User;
use nearfield_server::commands::TABLE;

fuzz_target!(|rules: &[u8]| {
    let mut user = User::new(b"somebody", false);
    let rules: Vec<&[u8]> = rules.split(|&byte| byte == b'\n').collect();
    for rule in &rules {
        let before = user.clone();
        if user.apply_all(TABLE.registry(), &[rule]).is_err() {
            // A refused rule changes nothing.
            assert_eq!(user, before);
        }
    }
    let line = user.describe();
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let mut again = User::new(b"somebody", false);
    again
        .apply_all(TABLE.registry(), &words[2..])
        .expect("a description consists of rules");
    assert_eq!(again.describe(), line);
    assert_eq!(again, user);
});
