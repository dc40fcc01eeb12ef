//! The memory node's side of calls.

use super::super::native::{NativeCode, NativeTraversalResult};
use super::format::{DATAGRAM_BYTES_MAX, Follow, NodeCall, TraversalReply, decode};
use super::trimmed;
use nearfield_offload::net::udp::Datagrams;
use nearfield_offload::traversal::TraversalMemory;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval of checks of the stop flag.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Serves calls until `stop` is set.
pub(in super::super) fn serve(
    native: &mut NativeCode<'_>,
    socket: &impl Datagrams,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut reply = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Some((length, from)) = socket.receive_datagram(&mut buffer, Some(CHECK_INTERVAL))?
        else {
            continue;
        };
        // Without a number there is no call to reply to.
        let Some((number, call)) = decode(buffer.get(..length).unwrap_or_default()) else {
            continue;
        };
        reply.clear();
        reply.extend(number.to_le_bytes());
        reply.push(1);
        if carry_out(native, &call, &mut reply).is_none() {
            reply.truncate(8);
            reply.push(0);
        }
        socket.send_datagram(from, &reply)?;
    }
    Ok(())
}

/// Carries out a call. Returns `None` to refuse one that names no program of the node, or no bytes
/// of its memory.
fn carry_out(native: &mut NativeCode<'_>, call: &NodeCall<'_>, reply: &mut Vec<u8>) -> Option<()> {
    let memory = native.memory();
    match *call {
        NodeCall::Read { address, bytes } => read(memory, address, bytes, reply),
        NodeCall::Write { address, bytes } => write(memory, address, bytes),
        NodeCall::Traverse {
            program,
            start,
            scratchpad,
            ref follow,
        } => {
            let NativeTraversalResult {
                next,
                scratchpad: left,
            } = native.traverse(program, start, scratchpad)?;
            let pointer = |word: u16| {
                let at = 8 * usize::from(word);
                let bytes = left.get(at..at + 8)?;
                bytes.try_into().ok().map(u64::from_le_bytes)
            };
            let mut object = Vec::new();
            let followed = match *follow {
                // Before its end the word is still a part of the traversal's state.
                _ if next != 0 => None,
                Follow::Nothing => Some(()),
                Follow::Read { word, bytes } => read(memory, pointer(word)?, bytes, &mut object),
                Follow::Write { word, bytes } => write(memory, pointer(word)?, bytes),
            };
            let reached = TraversalReply {
                next,
                is_followed: followed.is_some(),
                scratchpad: trimmed(&left),
                object: followed.map_or(&[], |()| &object),
            };
            reached.encode(reply);
            Some(())
        }
        NodeCall::Insert { root, key, value } => {
            reply.extend(native.insert(root, key, value)?.to_le_bytes());
            Some(())
        }
    }
}

fn read(memory: impl TraversalMemory, address: u64, bytes: u32, reply: &mut Vec<u8>) -> Option<()> {
    let begin = reply.len();
    let end = begin + bytes as usize;
    // The caller chooses the length, but the reply must fit a datagram.
    if end > DATAGRAM_BYTES_MAX {
        return None;
    }
    reply.resize(end, 0);
    memory.load(address, reply.get_mut(begin..end)?).ok()
}

fn write(memory: impl TraversalMemory, address: u64, bytes: &[u8]) -> Option<()> {
    memory.check_store(address, bytes.len()).ok()?;
    memory.store(address, bytes).ok()
}
