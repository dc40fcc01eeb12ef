//! UCX behind interfaces that cannot be misused: memory that UCX reads or writes later is owned by
//! a [`Transfer`] until it is done, and each object keeps alive the objects that it needs.
//!
//! UCX is configured for a worker that one thread uses; none of these objects can leave its thread.

use super::batch::UcxVerbMemory;
use super::error::UcxError;
use super::library::api;
use super::sys::{self, Api, EpParams, RequestParams, Status};
use super::turns::{UcxWorkerTurn, alone};
use crate::transport::copy;
use memmap2::{MmapOptions, MmapRaw};
use rustix::event::{PollFd, PollFlags, poll};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{null, null_mut};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The number of all our active messages.
const MESSAGE: u32 = 1;
/// A UCX worker, which sends and receives, with its received messages.
pub struct UcxWorker {
    api: &'static Api,
    context: sys::Context,
    worker: sys::Worker,
    /// The descriptor that becomes readable when there is progress to make, after a request for it.
    event: Option<RawFd>,
    turn: UcxWorkerTurn,
    /// True if events were handled that [`progress`](UcxWorker::progress) has not reported.
    has_advanced: Cell<bool>,
    /// The queues of callbacks. UCX has their address.
    inbox: Box<UcxInbox>,
}

/// The events of UCX's callbacks.
#[derive(Default)]
struct UcxInbox {
    messages: Mutex<VecDeque<UcxMessage>>,
    arrivals: Mutex<Vec<Arrival>>,
}

/// A message, and its sender.
pub struct UcxMessage {
    /// The sender's connection, if it can receive a reply.
    pub from: Option<ConnectionId>,
    pub bytes: Vec<u8>,
}

/// The number of a connection, unique within one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(usize);

/// A client that wants to connect.
pub struct Arrival(sys::ConnectionRequest);

// SAFETY: the request is UCX's, and is only handed back to it, by the thread of the worker.
unsafe impl Send for Arrival {}

/// Locks a list. No other thread, which could panic, exists; a panic would leave the lists
/// consistent.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(api: &Api, action: impl Into<String>, status: Status) -> UcxError {
    UcxError::Refused {
        action: action.into(),
        reason: api.describe(status),
    }
}

fn check(api: &Api, action: &str, status: Status) -> Result<(), UcxError> {
    if status == sys::OK {
        Ok(())
    } else {
        Err(refused(api, action, status))
    }
}

impl UcxWorker {
    /// Creates a worker, configured by the environment (`UCX_TLS` and so on).
    ///
    /// # Errors
    /// `Library`, `Old`, `Refused`.
    pub fn new() -> Result<Rc<UcxWorker>, UcxError> {
        let api = api()?;
        let turn = UcxWorkerTurn::default();
        let inbox = Box::new(UcxInbox::default());
        let (context, worker) =
            alone(|turns| new_worker(api).inspect(|_| turns.push(Arc::clone(&turn))))?;
        let mut created = UcxWorker {
            api,
            context,
            worker,
            event: None,
            turn,
            has_advanced: Cell::new(false),
            inbox,
        };
        let handler = sys::OnMessageParams {
            field_mask: sys::OnMessageParams::ALL,
            id: MESSAGE,
            flags: sys::OnMessageParams::WHOLE_MESSAGE,
            on_message: Some(on_message),
            argument: created.inbox_pointer(),
        };
        // SAFETY: the worker lives; the inbox that the handler gets lives longer than the worker.
        let set = unsafe { (api.set_message_handler)(worker, &handler) };
        check(api, "receive messages", set)?;
        let mut event: c_int = -1;
        // SAFETY: the worker lives and `event` is a place for a number.
        if unsafe { (api.worker_get_efd)(worker, &mut event) } == sys::OK {
            created.event = Some(event);
        }
        Ok(Rc::new(created))
    }

    fn inbox_pointer(&self) -> *mut c_void {
        (&raw const *self.inbox).cast_mut().cast()
    }

    /// Handles all current events. Returns true if there was one.
    pub fn progress(&self) -> bool {
        let turn = self.turn.lock();
        let advances = self.advance();
        drop(turn);
        self.has_advanced.take() || advances
    }

    /// Handles all current events. The caller holds the worker's turn.
    fn advance(&self) -> bool {
        // SAFETY: the worker lives, and its callbacks do not call this: they only write to the
        // inbox and to flags.
        unsafe { (self.api.worker_progress)(self.worker) != 0 }
    }

    /// Makes a call of UCX that may open or close sockets. See the [module](super::turns).
    fn alone<T>(&self, call: impl FnOnce() -> T) -> T {
        alone(|_| {
            let result = call();
            // Handles events of closed sockets before other workers open sockets of the same
            // numbers.
            if self.advance() {
                self.has_advanced.set(true);
            }
            result
        })
    }

    /// Sleeps until there is an event to handle, but not longer than `time`.
    pub fn wait(&self, time: Duration) {
        if self.has_advanced.get() {
            return;
        }
        let Some(event) = self.event else {
            std::thread::sleep(time.min(Duration::from_micros(100)));
            return;
        };
        // SAFETY: the worker lives.
        if unsafe { (self.api.worker_arm)(self.worker) } != sys::OK {
            // Busy: there is an event to handle now.
            return;
        }
        // SAFETY: the descriptor is the worker's, which lives.
        let event = unsafe { BorrowedFd::borrow_raw(event) };
        if let Ok(time) = time.try_into() {
            // An interruption is handled like an event.
            let _ = poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&time));
        }
    }

    /// Orders requests issued so far before later ones. See the [module](super::super).
    pub fn fence(&self) -> Result<(), Status> {
        // SAFETY: the worker lives.
        let status = unsafe { (self.api.worker_fence)(self.worker) };
        if status == sys::OK {
            Ok(())
        } else {
            Err(status)
        }
    }

    /// Takes the oldest message.
    pub fn take_message(&self) -> Option<UcxMessage> {
        lock(&self.inbox.messages).pop_front()
    }

    /// Takes the clients that want to connect.
    pub fn take_arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut lock(&self.inbox.arrivals))
    }

    pub fn describe(&self, status: Status) -> String {
        self.api.describe(status)
    }
}

impl Drop for UcxWorker {
    fn drop(&mut self) {
        // SAFETY: connections, listeners, memories and transfers hold the worker, so there are
        // none; the inbox is dropped after this.
        alone(|turns| unsafe {
            (self.api.worker_destroy)(self.worker);
            (self.api.cleanup)(self.context);
            turns.retain(|turn| !Arc::ptr_eq(turn, &self.turn));
        });
    }
}

/// Creates a worker in a context of its own.
fn new_worker(api: &Api) -> Result<(sys::Context, sys::Worker), UcxError> {
    let context = new_context(api)?;
    let mut worker = null_mut();
    // SAFETY: all zeros is a value of every field.
    let mut params: sys::WorkerParams = unsafe { std::mem::zeroed() };
    params.field_mask = sys::WorkerParams::THREAD_MODE;
    params.thread_mode = sys::WorkerParams::SINGLE;
    // SAFETY: the context lives, the parameters are as their mask says.
    let made = unsafe { (api.worker_create)(context, &params, &mut worker) };
    if let Err(error) = check(api, "create a worker", made) {
        // SAFETY: nothing uses the context.
        unsafe { (api.cleanup)(context) };
        return Err(error);
    }
    Ok((context, worker))
}

fn new_context(api: &Api) -> Result<sys::Context, UcxError> {
    let (mut config, mut context) = (null_mut(), null_mut());
    // SAFETY: no prefix and no file are allowed; `config` is a place for a handle.
    let read = unsafe { (api.config_read)(null(), null(), &mut config) };
    check(api, "read its configuration", read)?;
    if let Err(error) = set_defaults(api, config) {
        // SAFETY: the configuration was read, and is not used after this.
        unsafe { (api.config_release)(config) };
        return Err(error);
    }
    // SAFETY: all zeros is a value of every field.
    let mut params: sys::Params = unsafe { std::mem::zeroed() };
    params.field_mask = sys::Params::FEATURES;
    params.features = sys::FEATURE_RMA | sys::FEATURE_AMO64 | sys::FEATURE_AM | sys::FEATURE_WAKEUP;
    // SAFETY: the parameters are as their mask says, in the layout of the version that is named;
    // the configuration was read, and is released once.
    let made = unsafe {
        let made = (api.init)(sys::MAJOR, sys::MINOR, &params, config, &mut context);
        (api.config_release)(config);
        made
    };
    check(api, "start", made)?;
    Ok(context)
}

/// Configures the settings that the environment leaves open.
fn set_defaults(api: &Api, config: sys::Config) -> Result<(), UcxError> {
    let says = |name: &str| std::env::var_os(name).is_some();
    let set = |action: &str, name: &CStr, value: &CStr| {
        // SAFETY: the configuration was read, and both are texts that end in zeros.
        let status = unsafe { (api.config_modify)(config, name.as_ptr(), value.as_ptr()) };
        check(api, action, status)
    };
    if !says("UCX_TLS") && !says("UCX_MM_ERROR_HANDLING") {
        // UCX would not use shared memory, but would create it: some megabytes, which stay in
        // /dev/shm if this process is killed meanwhile.
        set("exclude shared memory", c"TLS", c"^sm")?;
    }
    // Set the option only if TCP may be used, because UCX warns of unused options.
    let transports = std::env::var("UCX_TLS").unwrap_or_else(|_| "all".to_owned());
    let may_be_tcp = ["tcp", "all", "^"]
        .iter()
        .any(|text| transports.contains(text));
    if may_be_tcp && !says("UCX_TCP_CONN_NB") {
        // A node connects back to each client. If it waited for that, a client whose machine is cut
        // off meanwhile would delay all others. If a client dies between the connection and the
        // first byte over it, UCX 1.13 retries within the same call, and ends the node's process.
        // UCX 1.13 knows the option by the first name only, 1.22 by the second. A version that has
        // neither works without it.
        let names = [c"CONN_NB", c"TCP_CONN_NB"];
        let mut tries = names
            .into_iter()
            .map(|name| set("connect without waiting", name, c"y"));
        let _is_known = tries.any(|tried| tried.is_ok());
    }
    Ok(())
}

/// Receives a message for a [`UcxInbox`]. UCX calls it.
unsafe extern "C" fn on_message(
    inbox: *mut c_void,
    _header: *const c_void,
    _header_length: usize,
    data: *mut c_void,
    length: usize,
    params: *const sys::MessageParams,
) -> Status {
    // SAFETY: the inbox lives as long as the worker that calls this; the parameters live during
    // the call.
    let (inbox, params) = unsafe { (&*inbox.cast::<UcxInbox>(), &*params) };
    if params.attributes & sys::MessageParams::RENDEZVOUS != 0 {
        // Our messages are not sent this way, so it is dropped.
        return sys::OK;
    }
    let bytes = if length == 0 {
        Vec::new()
    } else {
        // SAFETY: `length` bytes of data are there during the call.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) }.to_vec()
    };
    let answerable = params.attributes & sys::MessageParams::REPLY_EP != 0;
    let from = answerable.then_some(ConnectionId(params.reply_ep as usize));
    lock(&inbox.messages).push_back(UcxMessage { from, bytes });
    sys::OK
}

/// Receives a request to connect for a [`UcxInbox`]. UCX calls it.
unsafe extern "C" fn on_connection(request: sys::ConnectionRequest, inbox: *mut c_void) {
    // SAFETY: the inbox lives as long as the worker whose listener calls this.
    let inbox = unsafe { &*inbox.cast::<UcxInbox>() };
    lock(&inbox.arrivals).push(Arrival(request));
}

/// Sets a connection's flag when the connection is lost. UCX calls it.
unsafe extern "C" fn on_error(lost: *mut c_void, _ep: sys::Ep, _status: Status) {
    // SAFETY: the flag lives until the connection is closed, after which this is not called.
    let lost = unsafe { &*lost.cast::<AtomicBool>() };
    lost.store(true, Ordering::Relaxed);
}

/// An address in the form of the system's functions, `sockaddr_in` or `sockaddr_in6`.
struct RawAddress {
    bytes: [u8; 28],
    length: u32,
}

const FAMILY_4: u16 = 2;
const FAMILY_6: u16 = 10;

impl RawAddress {
    fn new(address: SocketAddr) -> RawAddress {
        let mut bytes = [0; 28];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, length) = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                (FAMILY_4, 16)
            }
            SocketAddr::V6(address) => {
                bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                (FAMILY_6, 28)
            }
        };
        bytes[..2].copy_from_slice(&family.to_ne_bytes());
        RawAddress { bytes, length }
    }

    fn as_argument(&self) -> sys::SocketAddress {
        sys::SocketAddress {
            address: self.bytes.as_ptr().cast(),
            length: self.length,
        }
    }
}

/// Reads an address in the form of the system's functions.
fn read_address(words: &[u64; 16]) -> Option<SocketAddr> {
    let mut bytes = [0_u8; 28];
    for (chunk, word) in bytes.chunks_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
    }
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let ip = match u16::from_ne_bytes([bytes[0], bytes[1]]) {
        FAMILY_4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[4..8]).ok()?)),
        FAMILY_6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// A listener that makes a worker report the clients that want to connect.
pub struct UcxListener {
    worker: Rc<UcxWorker>,
    listener: sys::Listener,
}

impl UcxListener {
    /// Listens at an address.
    ///
    /// # Errors
    /// `Refused`.
    pub fn new(worker: &Rc<UcxWorker>, address: SocketAddr) -> Result<UcxListener, UcxError> {
        let raw = RawAddress::new(address);
        let params = sys::ListenerParams {
            field_mask: sys::ListenerParams::ADDRESS | sys::ListenerParams::ON_CONNECTION,
            address: raw.as_argument(),
            accept_handler: [null_mut(); 2],
            on_connection: Some(on_connection),
            argument: worker.inbox_pointer(),
        };
        let mut listener = null_mut();
        // SAFETY: the worker lives; the inbox that the handler gets lives longer than the listener,
        // which holds the worker; the address lives during the call.
        let made = worker.alone(|| unsafe {
            (worker.api.listener_create)(worker.worker, &params, &mut listener)
        });
        check(worker.api, &format!("listen at {address}"), made)?;
        let worker = Rc::clone(worker);
        Ok(UcxListener { worker, listener })
    }

    /// Returns the address on which it listens, with the chosen port if none was requested.
    pub fn address(&self) -> Result<SocketAddr, UcxError> {
        let api = self.worker.api;
        let mut attributes = sys::ListenerAttributes {
            field_mask: sys::ListenerAttributes::ADDRESS,
            address: [0; 16],
        };
        // SAFETY: the listener lives, and the attributes are as the mask says.
        let asked = unsafe { (api.listener_query)(self.listener, &mut attributes) };
        check(api, "report its address", asked)?;
        read_address(&attributes.address).ok_or_else(|| refused(api, "report its address", asked))
    }
}

impl Drop for UcxListener {
    fn drop(&mut self) {
        let destroy = self.worker.api.listener_destroy;
        // SAFETY: the listener lives until here.
        self.worker.alone(|| unsafe { destroy(self.listener) });
    }
}

/// The memory of a node, initially all zero. Others access it, and this process does by copies in
/// the thread of its worker.
pub struct UcxNodeMemory {
    worker: Rc<UcxWorker>,
    handle: sys::Memory,
    map: MmapRaw,
}

impl UcxNodeMemory {
    /// Maps `bytes`, which the system provides at once.
    ///
    /// # Errors
    /// The system's error, or `Refused` within.
    pub fn new(worker: &Rc<UcxWorker>, bytes: usize) -> Result<UcxNodeMemory, std::io::Error> {
        let map = MmapOptions::new().len(bytes).populate().map_anon()?;
        let map = MmapRaw::from(map);
        let mut handle = null_mut();
        let params = sys::MemoryParams {
            field_mask: sys::MemoryParams::ADDRESS | sys::MemoryParams::LENGTH,
            address: map.as_mut_ptr().cast(),
            length: bytes,
            flags: 0,
            protection: 0,
            memory_type: 0,
        };
        // SAFETY: the context lives; `bytes` are mapped there until after UCX unmaps them, and
        // references to them are to atomics.
        let mapped = unsafe { (worker.api.memory_map)(worker.context, &params, &mut handle) };
        check(worker.api, "register memory", mapped).map_err(std::io::Error::other)?;
        let worker = Rc::clone(worker);
        Ok(UcxNodeMemory {
            worker,
            handle,
            map,
        })
    }

    /// Returns its words, which others may access at the same time.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: these bytes are mapped as long as this lives, at the start of a page, and all
        // parts of this program access them as atomics only. The accesses of adapters are not made
        // by this program.
        unsafe {
            let words = self.map.as_mut_ptr().cast::<AtomicU64>();
            std::slice::from_raw_parts(words, self.map.len() / size_of::<AtomicU64>())
        }
    }

    /// Returns true if bytes are in the memory.
    fn has(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.checked_add(bytes);
        end.is_some_and(|end| end <= self.map.len() as u64)
    }

    /// Returns the address of its start in this process.
    pub fn base(&self) -> u64 {
        self.map.as_ptr() as u64
    }

    /// Returns the key that other processes need for access.
    ///
    /// # Errors
    /// `Refused`.
    pub fn key(&self) -> Result<Vec<u8>, UcxError> {
        let api = self.worker.api;
        let (mut key, mut length) = (null_mut(), 0);
        // SAFETY: context and memory live; the two places take a buffer, which is copied and
        // released once.
        unsafe {
            let packed = (api.key_pack)(self.worker.context, self.handle, &mut key, &mut length);
            check(api, "pack the key of memory", packed)?;
            let bytes = std::slice::from_raw_parts(key.cast::<u8>(), length).to_vec();
            (api.key_release)(key);
            Ok(bytes)
        }
    }
}

impl UcxVerbMemory for UcxNodeMemory {
    fn read(&self, offset: u64, bytes: u64, into: &mut Vec<u8>) -> bool {
        let is_there = self.has(offset, bytes);
        if is_there {
            let start = into.len();
            into.resize(start + bytes as usize, 0);
            copy::load(self.words(), offset as usize, &mut into[start..]);
        }
        is_there
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let is_there = self.has(offset, bytes.len() as u64);
        if is_there {
            copy::store(self.words(), offset as usize, bytes);
        }
        is_there
    }
}

impl Drop for UcxNodeMemory {
    fn drop(&mut self) {
        // SAFETY: it is mapped until here. A failure leaves the memory registered, and then the
        // accesses of others fail at the mapping.
        unsafe { (self.worker.api.memory_unmap)(self.worker.context, self.handle) };
    }
}

/// A connection to another worker.
pub struct UcxConnection {
    worker: Rc<UcxWorker>,
    ep: sys::Ep,
    /// The flag that the connection is lost. UCX has its address until the connection is closed.
    lost: Arc<AtomicBool>,
}

impl UcxConnection {
    /// Begins to connect to the listener at an address.
    ///
    /// # Errors
    /// `Refused`. [`is_lost`](UcxConnection::is_lost) reports later errors.
    pub fn connect(worker: &Rc<UcxWorker>, address: SocketAddr) -> Result<UcxConnection, UcxError> {
        let raw = RawAddress::new(address);
        UcxConnection::create(worker, &format!("connect to {address}"), |params| {
            params.field_mask |= EpParams::ADDRESS | EpParams::FLAGS;
            params.flags = EpParams::CLIENT_SERVER;
            params.address = raw.as_argument();
        })
    }

    /// Accepts a client's connection.
    ///
    /// # Errors
    /// `Refused`.
    pub fn accept(worker: &Rc<UcxWorker>, arrival: Arrival) -> Result<UcxConnection, UcxError> {
        UcxConnection::create(worker, "accept a connection", |params| {
            params.field_mask |= EpParams::REQUEST;
            params.request = arrival.0;
        })
    }

    fn create(
        worker: &Rc<UcxWorker>,
        action: &str,
        complete: impl FnOnce(&mut EpParams),
    ) -> Result<UcxConnection, UcxError> {
        let lost = Arc::new(AtomicBool::new(false));
        // SAFETY: all zeros is a value of every field.
        let mut params: EpParams = unsafe { std::mem::zeroed() };
        params.field_mask = EpParams::ERROR_MODE | EpParams::ON_ERROR;
        params.error_mode = EpParams::PEER_ERRORS;
        params.on_error = Some(on_error);
        params.argument = Arc::as_ptr(&lost).cast_mut().cast();
        complete(&mut params);
        let mut ep = null_mut();
        let create = worker.api.ep_create;
        // SAFETY: the worker lives; the parameters fit their mask, and the objects that they point
        // to live during the call, the flag until the connection is closed.
        let made = worker.alone(|| unsafe { create(worker.worker, &params, &mut ep) });
        check(worker.api, action, made)?;
        let worker = Rc::clone(worker);
        Ok(UcxConnection { worker, ep, lost })
    }

    pub fn id(&self) -> ConnectionId {
        ConnectionId(self.ep as usize)
    }

    /// Returns true once the peer is gone.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sends a message.
    pub fn send(&self, bytes: Vec<u8>) -> Transfer {
        let mut params = request_params();
        params.mask = RequestParams::FLAGS;
        params.flags = RequestParams::REPLY | RequestParams::EAGER;
        let (data, length) = (bytes.as_ptr().cast(), bytes.len());
        self.transfer(UcxTransferPayload::Bytes(bytes), |api, ep| {
            // SAFETY: the connection lives, and the payload until the transfer is done.
            unsafe { (api.send)(ep, MESSAGE, null(), 0, data, length, &params) }
        })
    }

    /// Reads bytes of the peer's memory.
    pub fn get(&self, key: &Rc<UcxRemoteKey>, address: u64, bytes: usize) -> Transfer {
        let mut buffer = vec![0_u8; bytes];
        let into = buffer.as_mut_ptr().cast();
        let params = request_params();
        self.access(key, UcxTransferPayload::Bytes(buffer), |api, ep| {
            // SAFETY: as in `send`; the key lives, too, and belongs to this connection's peer.
            unsafe { (api.get)(ep, into, bytes, address, key.handle, &params) }
        })
    }

    /// Writes bytes to the peer's memory. The transfer is done when the bytes were accepted, not
    /// when they have arrived.
    pub fn put(&self, key: &Rc<UcxRemoteKey>, address: u64, bytes: Vec<u8>) -> Transfer {
        let (from, length) = (bytes.as_ptr().cast(), bytes.len());
        let params = request_params();
        self.access(key, UcxTransferPayload::Bytes(bytes), |api, ep| {
            // SAFETY: as in `get`.
            unsafe { (api.put)(ep, from, length, address, key.handle, &params) }
        })
    }

    /// Swaps a word if it equals the expected one; [`Transfer::word`] returns the old word.
    pub fn compare_swap(
        &self,
        key: &Rc<UcxRemoteKey>,
        address: u64,
        expected: u64,
        desired: u64,
    ) -> Transfer {
        self.atomic(key, address, sys::ATOMIC_COMPARE_SWAP, [expected, desired])
    }

    /// Adds to a word; [`Transfer::word`] returns the old word.
    pub fn add(&self, key: &Rc<UcxRemoteKey>, address: u64, summand: u64) -> Transfer {
        self.atomic(key, address, sys::ATOMIC_ADD, [summand, 0])
    }

    fn atomic(
        &self,
        key: &Rc<UcxRemoteKey>,
        address: u64,
        operation: u32,
        words: [u64; 2],
    ) -> Transfer {
        let mut words = Vec::from(words);
        let operand = words.as_mut_ptr();
        let mut params = request_params();
        params.mask = RequestParams::DATATYPE | RequestParams::REPLY_BUFFER;
        params.datatype = RequestParams::WORD;
        params.reply_buffer = operand.wrapping_add(1).cast();
        self.access(key, UcxTransferPayload::Words(words), |api, ep| {
            let operand = operand.cast_const().cast();
            // SAFETY: as in `get`; both words are the payload's.
            unsafe { (api.atomic)(ep, operation, operand, 1, address, key.handle, &params) }
        })
    }

    /// Returns a transfer that is done when all earlier puts have arrived.
    pub fn flush(&self) -> Transfer {
        let params = request_params();
        self.transfer(UcxTransferPayload::Nothing, |api, ep| {
            // SAFETY: the connection lives.
            unsafe { (api.ep_flush)(ep, &params) }
        })
    }

    fn access(
        &self,
        key: &Rc<UcxRemoteKey>,
        payload: UcxTransferPayload,
        issue: impl FnOnce(&Api, sys::Ep) -> sys::StatusPointer,
    ) -> Transfer {
        let mut transfer = self.transfer(payload, issue);
        transfer.key = Some(Rc::clone(key));
        transfer
    }

    fn transfer(
        &self,
        payload: UcxTransferPayload,
        issue: impl FnOnce(&Api, sys::Ep) -> sys::StatusPointer,
    ) -> Transfer {
        let pointer = issue(self.worker.api, self.ep);
        Transfer::new(&self.worker, payload, pointer)
    }

    /// Closes it, at once (`force`), or when all puts have arrived. It is closed when the transfer
    /// is done.
    pub fn close(self, force: bool) -> Transfer {
        let this = ManuallyDrop::new(self);
        // SAFETY: each field is taken out once, and `this` is not dropped.
        let (worker, lost) = unsafe { (std::ptr::read(&this.worker), std::ptr::read(&this.lost)) };
        close(&worker, this.ep, lost, force)
    }
}

impl Drop for UcxConnection {
    fn drop(&mut self) {
        // If the connection is not closed at once, its flag is never freed.
        drop(close(&self.worker, self.ep, Arc::clone(&self.lost), true));
    }
}

fn close(worker: &Rc<UcxWorker>, ep: sys::Ep, lost: Arc<AtomicBool>, force: bool) -> Transfer {
    let mut params = request_params();
    if force {
        params.mask = RequestParams::FLAGS;
        params.flags = RequestParams::FORCE;
    }
    // SAFETY: the connection lives, and is not used after this.
    let pointer = worker.alone(|| unsafe { (worker.api.ep_close)(ep, &params) });
    Transfer::new(worker, UcxTransferPayload::Flag(lost), pointer)
}

fn request_params() -> RequestParams {
    // SAFETY: all zeros is a value of every field.
    unsafe { std::mem::zeroed() }
}

/// Largest length of a key: more than 64 parts of 255 bytes, their lengths, and the distances of
/// adapters.
const KEY_BYTES_MAX: usize = 1 << 15;

/// The right of a connection to access the memory of the other end.
pub struct UcxRemoteKey {
    worker: Rc<UcxWorker>,
    handle: sys::RemoteKey,
}

impl UcxRemoteKey {
    /// Reads the key of the memory at the other end of a connection.
    ///
    /// # Errors
    /// `Refused`.
    pub fn new(connection: &UcxConnection, bytes: &[u8]) -> Result<UcxRemoteKey, UcxError> {
        // UCX does not receive the length of a key. The lengths in it are bytes, of 64 parts at
        // most, so UCX reads no further than this for any values.
        if bytes.len() > KEY_BYTES_MAX {
            return Err(UcxError::Refused {
                action: "read the key of memory".to_owned(),
                reason: format!("it has {} bytes", bytes.len()),
            });
        }
        let mut padded = bytes.to_vec();
        padded.resize(2 * KEY_BYTES_MAX, 0);
        let mut handle = null_mut();
        let worker = &connection.worker;
        // SAFETY: the connection lives; the bytes are what the other end has packed.
        let read =
            unsafe { (worker.api.key_unpack)(connection.ep, padded.as_ptr().cast(), &mut handle) };
        check(worker.api, "read the key of memory", read)?;
        let worker = Rc::clone(worker);
        Ok(UcxRemoteKey { worker, handle })
    }

    /// Returns true if this process's own loads and stores can access the memory at an address,
    /// with this key, without the peer.
    pub fn is_mapped(&self, address: u64) -> bool {
        let mut pointer = null_mut();
        // SAFETY: the key lives, and `pointer` is a place for an unused result.
        unsafe { (self.worker.api.key_pointer)(self.handle, address, &mut pointer) == sys::OK }
    }
}

impl Drop for UcxRemoteKey {
    fn drop(&mut self) {
        // SAFETY: the key lives until here, and transfers in flight hold it.
        unsafe { (self.worker.api.key_destroy)(self.handle) };
    }
}

/// The memory that UCX may read and write until a transfer is done. The content of a vector stays
/// in place when the vector is moved.
enum UcxTransferPayload {
    Nothing,
    Bytes(Vec<u8>),
    /// An operand, and a place for the result.
    Words(Vec<u64>),
    /// The flag of a connection that is being closed.
    Flag(#[expect(dead_code, reason = "it is kept alive")] Arc<AtomicBool>),
}

/// A request in flight. If it is dropped before it is done, memory that UCX may still use is never
/// freed.
pub struct Transfer {
    worker: Rc<UcxWorker>,
    payload: ManuallyDrop<UcxTransferPayload>,
    key: Option<Rc<UcxRemoteKey>>,
    state: UcxTransferState,
}

#[derive(Clone, Copy)]
enum UcxTransferState {
    Going(*mut c_void),
    Done(Status),
}

impl Transfer {
    fn new(
        worker: &Rc<UcxWorker>,
        payload: UcxTransferPayload,
        pointer: sys::StatusPointer,
    ) -> Transfer {
        Transfer {
            worker: Rc::clone(worker),
            payload: ManuallyDrop::new(payload),
            key: None,
            state: sys::status_of(pointer)
                .map_or(UcxTransferState::Going(pointer), UcxTransferState::Done),
        }
    }

    /// Returns its result; `None` while it is in flight. [`UcxWorker::progress`] advances it.
    pub fn poll(&mut self) -> Option<Result<(), Status>> {
        if let UcxTransferState::Going(request) = self.state {
            let api = self.worker.api;
            // SAFETY: the request is ours until it is freed, here and once.
            let status = unsafe { (api.request_status)(request) };
            if status == sys::IN_PROGRESS {
                return None;
            }
            // SAFETY: as above.
            unsafe { (api.request_free)(request) };
            self.state = UcxTransferState::Done(status);
        }
        match self.state {
            UcxTransferState::Done(sys::OK) => Some(Ok(())),
            UcxTransferState::Done(status) => Some(Err(status)),
            UcxTransferState::Going(_) => None,
        }
    }

    /// Returns the bytes read, once it is done; none for other transfers than reads.
    pub fn bytes(&self) -> &[u8] {
        match (&*self.payload, self.state) {
            (UcxTransferPayload::Bytes(bytes), UcxTransferState::Done(_)) => bytes,
            _ => &[],
        }
    }

    /// Returns the old word, once it is done.
    pub fn word(&self) -> Option<u64> {
        match (&*self.payload, self.state) {
            (UcxTransferPayload::Words(words), UcxTransferState::Done(_)) => words.last().copied(),
            _ => None,
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        match self.state {
            // SAFETY: UCX no longer uses the payload, which is not used after this.
            UcxTransferState::Done(_) => unsafe { ManuallyDrop::drop(&mut self.payload) },
            UcxTransferState::Going(request) => {
                std::mem::forget(self.key.take());
                // SAFETY: the request is ours; UCX frees it when it is done. Its payload stays.
                unsafe { (self.worker.api.request_free)(request) }
            }
        }
    }
}
