//! Many datagrams by one system call: `sendmmsg` and `recvmmsg`.

use super::batch::DatagramBatch;
use crate::wire::ProcessAddress;
use libc::{c_int, c_uint, in_addr, iovec, mmsghdr, sockaddr_in, socklen_t};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

/// Largest number of datagrams of a call.
const CALL: usize = 32;
/// The length of a socket address.
const NAME_BYTES: socklen_t = size_of::<sockaddr_in>() as socklen_t;

/// Receives datagrams that have arrived, without a wait. There may be none.
pub(super) fn receive(socket: &UdpSocket, batch: &mut DatagramBatch) -> io::Result<()> {
    batch.clear();
    let mut names = [name(ProcessAddress(0)); CALL];
    let mut parts = [part(&[]); CALL];
    let mut headers = [empty(); CALL];
    let rows = headers.iter_mut().zip(&mut parts).zip(&mut names);
    let mut count = 0;
    for (((header, part), name), buffer) in rows.zip(batch.buffers()) {
        part.iov_base = buffer.as_mut_ptr().cast();
        part.iov_len = buffer.len();
        fill(header, part, name);
        count += 1;
    }
    // SAFETY: the first `count` headers point to a name and to a part that are not used by others
    // before the call returns. Each part has the address and the length of a buffer of the batch,
    // which is borrowed exclusively. There is no timeout.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as c_uint,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    };
    for (header, name) in headers.iter().zip(&names).take(done(received)?) {
        batch.push(header.msg_len as usize, place(name));
    }
    Ok(())
}

/// Sends datagrams in their order. Returns the number of those that were sent, which is at least
/// one if there are any.
pub(super) fn send(socket: &UdpSocket, datagrams: &[(ProcessAddress, &[u8])]) -> io::Result<usize> {
    let mut names = [name(ProcessAddress(0)); CALL];
    let mut parts = [part(&[]); CALL];
    let mut headers = [empty(); CALL];
    let rows = headers.iter_mut().zip(&mut parts).zip(&mut names);
    let mut count = 0;
    for (((header, to_part), to_name), (to, datagram)) in rows.zip(datagrams) {
        *to_part = part(datagram);
        *to_name = name(*to);
        fill(header, to_part, to_name);
        count += 1;
    }
    // SAFETY: the first `count` headers point to a name and to a part that live until the call
    // returns. Each part has the address and the length of a datagram, which is borrowed. The call
    // reads these bytes, and writes only the headers.
    let sent =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as c_uint, 0) };
    done(sent)
}

/// Waits until a datagram has arrived, or a time has passed.
pub(super) fn wait(socket: &UdpSocket, time: Duration) -> io::Result<()> {
    let mut polled = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // Milliseconds, and at least one: zero would mean no wait.
    let milliseconds = time.as_micros().div_ceil(1000).clamp(1, 1 << 30) as c_int;
    // SAFETY: the pointer is to one entry, which lives until the call returns.
    let ready = unsafe { libc::poll(&raw mut polled, 1, milliseconds) };
    done(ready).map(drop)
}

/// Returns the result of a call.
fn done(result: c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn empty() -> mmsghdr {
    // SAFETY: zeros are a value of this type: null pointers, and lengths of zero.
    unsafe { std::mem::zeroed() }
}

fn fill(header: &mut mmsghdr, part: &mut iovec, name: &mut sockaddr_in) {
    header.msg_hdr.msg_name = ptr::from_mut(name).cast();
    header.msg_hdr.msg_namelen = NAME_BYTES;
    header.msg_hdr.msg_iov = ptr::from_mut(part);
    header.msg_hdr.msg_iovlen = 1;
}

fn part(datagram: &[u8]) -> iovec {
    iovec {
        iov_base: datagram.as_ptr().cast_mut().cast(),
        iov_len: datagram.len(),
    }
}

fn name(place: ProcessAddress) -> sockaddr_in {
    let address = SocketAddrV4::from(place);
    sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: address.port().to_be(),
        sin_addr: in_addr {
            s_addr: address.ip().to_bits().to_be(),
        },
        sin_zero: [0; 8],
    }
}

/// Returns the sender of a datagram; 0.0.0.0:0, to which replies are lost, if it has another kind
/// of address.
fn place(name: &sockaddr_in) -> ProcessAddress {
    if c_int::from(name.sin_family) != libc::AF_INET {
        return ProcessAddress(0);
    }
    let address = Ipv4Addr::from_bits(u32::from_be(name.sin_addr.s_addr));
    SocketAddrV4::new(address, u16::from_be(name.sin_port)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> (UdpSocket, ProcessAddress) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let place = super::super::place(&socket).expect("IPv4");
        (socket, place)
    }

    #[test]
    fn datagrams_arrive_with_their_senders() {
        let (receiver, to) = bound();
        let (first, second) = (bound(), bound());
        let mut batch = DatagramBatch::new(3);
        receive(&receiver, &mut batch).expect_err("nothing has arrived");
        assert!(batch.is_empty());
        let long = vec![9; 5000];
        let datagrams: [(ProcessAddress, &[u8]); 3] = [(to, &[1]), (to, &long), (to, &[])];
        assert_eq!(send(&first.0, &datagrams).ok(), Some(3));
        assert_eq!(send(&second.0, &datagrams[..1]).ok(), Some(1));
        wait(&receiver, Duration::from_secs(5)).expect("a socket");
        receive(&receiver, &mut batch).expect("datagrams");
        let expected = datagrams.map(|(_, datagram)| (datagram, first.1));
        assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
        receive(&receiver, &mut batch).expect("a datagram");
        assert_eq!(batch.iter().collect::<Vec<_>>(), [(&[1_u8][..], second.1)]);
    }

    #[test]
    fn no_call_has_too_many_datagrams() {
        let ((receiver, to), (sender, _)) = (bound(), bound());
        let datagram: &[u8] = &[5; 9];
        let datagrams = vec![(to, datagram); CALL + 8];
        assert_eq!(send(&sender, &datagrams).ok(), Some(CALL));
        assert_eq!(send(&sender, &datagrams[CALL..]).ok(), Some(8));
        let mut batch = DatagramBatch::new(CALL + 8);
        receive(&receiver, &mut batch).expect("datagrams");
        assert_eq!(batch.len(), CALL);
        receive(&receiver, &mut batch).expect("datagrams");
        assert_eq!(batch.len(), 8);
    }
}
