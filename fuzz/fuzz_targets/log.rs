//! No bytes make the reader of logs panic; frames are read as they were written. Damage to a frame
//! leaves the frames before it intact, and is always reported.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_server::log::frame::{AppendLogItem, Frames, LogTag, find_later_frames, seal};
use nearfield_server::log::manifest::Manifest;
use std::io::Cursor;

fuzz_target!(
    |input: (Vec<Vec<Vec<u8>>>, Option<u64>, usize, u8, Vec<u8>)| {
        let (frames, tag, place, change, bytes) = input;
        read(&bytes);
        if let Some(manifest) = Manifest::parse(&bytes) {
            assert_eq!(manifest.text().as_bytes(), bytes);
        }
        let (mut log, mut ends, mut commands) = (Vec::new(), Vec::new(), Vec::new());
        for words in &frames {
            let mut body = Vec::new();
            for word in words {
                let command = format!("*1\r\n${}\r\n", word.len());
                let command = [command.as_bytes(), word, b"\r\n"].concat();
                body.extend_from_slice(&command);
                commands.push(command);
            }
            let from = log.len() as u64;
            seal(&mut body, tag.map(LogTag), from, from);
            log.extend_from_slice(&body);
            ends.push((log.len(), commands.len()));
        }
        assert_eq!(read(&log), (commands.clone(), None));
        if log.is_empty() {
            return;
        }
        let place = place % log.len();
        let whole = ends.iter().rev().find(|(end, _)| *end <= place);
        let &(end, count) = whole.unwrap_or(&(0, 0));
        let (before, found) = read(&log[..place]);
        assert_eq!(before, commands[..count]);
        assert_eq!(found, (place > end).then_some(end as u64));
        if change != 0 {
            log[place] ^= change;
            let (before, found) = read(&log);
            assert_eq!(
                (before, found),
                (commands[..count].to_vec(), Some(end as u64))
            );
        }
    }
);

/// Reads all complete frames. Returns their commands, and the position where anything else begins.
fn read(log: &[u8]) -> (Vec<Vec<u8>>, Option<u64>) {
    let mut frames = Frames::new(log);
    let mut commands = Vec::new();
    loop {
        match frames.read().expect("a slice can be read") {
            AppendLogItem::Frame { .. } => {
                commands.extend(frames.commands().map(|(_, command)| command.to_vec()));
            }
            AppendLogItem::End => return (commands, None),
            AppendLogItem::Bad { from, .. } => {
                find_later_frames(&mut Cursor::new(log), from, from).expect("a slice can be read");
                return (commands, Some(from));
            }
        }
    }
}
