//! Many datagrams by one system call: `sendmmsg` and `recvmmsg`. Datagrams of one length to one
//! place pass the kernel's network layers as one, where the kernel has generic segmentation offload
//! for UDP (Linux 4.18), and are cut behind these.

use super::batch::DatagramBatch;
use crate::wire::ProcessAddress;
use libc::{c_int, c_uint, cmsghdr, in_addr, iovec, mmsghdr, sockaddr_in, socklen_t};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Largest number of datagrams of a call.
const CALL: usize = 32;
/// The option and control message with the length of the datagrams to cut (`linux/udp.h`).
const UDP_SEGMENT: c_int = 103;
/// Largest length of datagrams that are cut: what Ethernet carries. The kernel does not cut
/// datagrams that need fragments of IP.
const SEGMENT_BYTES_MAX: usize = 1472;
/// Least number of datagrams that are sent to be cut. *Assumed*: fewer do not repay the search.
const SEGMENTS_MIN: usize = 4;
// The bytes of a call are at most those of one datagram, and at most 64 datagrams.
const _: () = assert!(CALL * SEGMENT_BYTES_MAX <= 65_507 && CALL <= 64);

/// The findings about the kernel: not known, it cuts, it does not.
static CUTTING: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const CUTS: u8 = 1;
const CUTS_NOT: u8 = 2;

/// The control message with the length of the datagrams to cut.
#[repr(C)]
struct UdpSegmentControl {
    header: cmsghdr,
    bytes: u16,
}

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
    if datagrams.len() < SEGMENTS_MIN || !cuts(socket) {
        return send_each(socket, datagrams);
    }
    // The datagrams before the first ones to cut.
    let first = datagrams.len().min(CALL);
    let before = (0..first).find(|&at| segments(&datagrams[at..]) >= SEGMENTS_MIN);
    let before = before.unwrap_or(first);
    if before > 0 {
        return send_each(socket, &datagrams[..before]);
    }
    let datagrams = &datagrams[..segments(datagrams)];
    let Err(error) = send_segments(socket, datagrams) else {
        return Ok(datagrams.len());
    };
    let sent = send_each(socket, datagrams)?;
    // The place is a valid one. So the device cannot compute checksums (EIO), it carries less
    // (EINVAL or EMSGSIZE), or the kernel refuses (EOPNOTSUPP).
    let reasons = [libc::EIO, libc::EINVAL, libc::EMSGSIZE, libc::EOPNOTSUPP];
    if error
        .raw_os_error()
        .is_some_and(|code| reasons.contains(&code))
    {
        CUTTING.store(CUTS_NOT, Ordering::Relaxed);
    }
    Ok(sent)
}

/// Returns true if datagrams can be cut, as far as is known.
fn cuts(socket: &UdpSocket) -> bool {
    let known = CUTTING.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known == CUTS;
    }
    let has_option = has_segment_option(socket);
    let found = if has_option { CUTS } else { CUTS_NOT };
    CUTTING.store(found, Ordering::Relaxed);
    has_option
}

/// Returns true if the kernel knows the option. An older one would ignore the control message, and
/// send one long datagram.
fn has_segment_option(socket: &UdpSocket) -> bool {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: both pointers are to numbers that live until the call returns, and the second one is
    // the length of the first.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_UDP,
            UDP_SEGMENT,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    result == 0
}

/// Returns the number of datagrams at the start that can be cut out of the bytes of one call. They
/// go to one place and have one length, except that the last one may be shorter.
fn segments(datagrams: &[(ProcessAddress, &[u8])]) -> usize {
    let Some(&(to, first)) = datagrams.first() else {
        return 0;
    };
    let length = first.len();
    if length == 0 || length > SEGMENT_BYTES_MAX {
        return 1;
    }
    let mut count = 0;
    for &(place, datagram) in datagrams.iter().take(CALL) {
        if place != to || datagram.is_empty() || datagram.len() > length {
            break;
        }
        count += 1;
        if datagram.len() < length {
            break;
        }
    }
    count
}

/// Sends [segments] as one.
fn send_segments(socket: &UdpSocket, datagrams: &[(ProcessAddress, &[u8])]) -> io::Result<()> {
    let Some(&(to, first)) = datagrams.first() else {
        return Ok(());
    };
    debug_assert_eq!(segments(datagrams), datagrams.len());
    let mut to_name = name(to);
    let mut parts = [part(&[]); CALL];
    for (to_part, (_, datagram)) in parts.iter_mut().zip(datagrams) {
        *to_part = part(datagram);
    }
    // SAFETY: zeros are a value of this type: numbers.
    let mut control: UdpSegmentControl = unsafe { std::mem::zeroed() };
    control.header.cmsg_len = (size_of::<cmsghdr>() + size_of::<u16>()) as _;
    control.header.cmsg_level = libc::IPPROTO_UDP;
    control.header.cmsg_type = UDP_SEGMENT;
    control.bytes = first.len() as u16;
    let mut header = empty().msg_hdr;
    header.msg_name = (&raw mut to_name).cast();
    header.msg_namelen = NAME_BYTES;
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = datagrams.len().min(CALL) as _;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of::<UdpSegmentControl>() as _;
    // SAFETY: the header points to a name, to parts and to a control message that live until the
    // call returns, with their lengths. Each part has the address and the length of a datagram,
    // which is borrowed. The call reads these bytes.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sends datagrams in their order, each as it is. Returns the number of those that were sent, which
/// is at least one if there are any.
fn send_each(socket: &UdpSocket, datagrams: &[(ProcessAddress, &[u8])]) -> io::Result<usize> {
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

    /// Returns a number of datagrams that arrive, with their senders.
    fn arrived(receiver: &UdpSocket, count: usize) -> Vec<(Vec<u8>, ProcessAddress)> {
        let mut batch = DatagramBatch::new(16);
        let mut all = Vec::new();
        while all.len() < count {
            wait(receiver, Duration::from_secs(5)).expect("a socket");
            receive(receiver, &mut batch).expect("datagrams");
            all.extend(
                batch
                    .iter()
                    .map(|(datagram, from)| (datagram.to_vec(), from)),
            );
        }
        all
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
    fn datagrams_of_one_length_to_one_place_are_cut() {
        let (here, there) = (ProcessAddress(1), ProcessAddress(2));
        let (long, short, empty): (&[u8], &[u8], &[u8]) = (&[1; 1000], &[2; 300], &[]);
        assert_eq!(segments(&[]), 0);
        assert_eq!(segments(&[(here, long); 5]), 5);
        assert_eq!(segments(&[(here, long); CALL + 5]), CALL);
        assert_eq!(segments(&[(here, long), (here, long), (there, long)]), 2);
        assert_eq!(segments(&[(here, long), (here, short), (here, short)]), 2);
        assert_eq!(segments(&[(here, short), (here, long)]), 1);
        assert_eq!(segments(&[(here, long), (here, empty), (here, long)]), 1);
        assert_eq!(segments(&[(here, empty), (here, empty)]), 1);
        let too_long = &[3; SEGMENT_BYTES_MAX + 1][..];
        assert_eq!(segments(&[(here, too_long), (here, too_long)]), 1);
    }

    #[test]
    fn cut_datagrams_arrive_as_they_were() {
        let ((receiver, to), (sender, from)) = (bound(), bound());
        let all: Vec<Vec<u8>> = (0..9)
            .map(|number| vec![number; if number == 8 { 300 } else { 1000 }])
            .collect();
        let datagrams: Vec<(ProcessAddress, &[u8])> =
            all.iter().map(|one| (to, one.as_slice())).collect();
        let expected: Vec<(Vec<u8>, ProcessAddress)> =
            all.iter().map(|one| (one.clone(), from)).collect();
        if has_segment_option(&sender) {
            send_segments(&sender, &datagrams).expect("a kernel that cuts");
            assert_eq!(arrived(&receiver, 9), expected);
        } else {
            eprintln!("skipped: the kernel does not cut datagrams");
        }
        // Others before and behind them, by whichever calls.
        let others: [(ProcessAddress, &[u8]); 1] = [(to, &[7; 5000])];
        let mixed = [&others[..], &datagrams[..], &others[..]].concat();
        let mut rest = &mixed[..];
        while !rest.is_empty() {
            let sent = send(&sender, rest).expect("a socket");
            assert!(sent > 0);
            rest = &rest[sent..];
        }
        let expected = mixed.iter().map(|(_, datagram)| (datagram.to_vec(), from));
        assert_eq!(arrived(&receiver, 11), expected.collect::<Vec<_>>());
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
