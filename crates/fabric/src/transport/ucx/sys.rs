//! The used part of UCX's interface, written by hand: the types of version 1.13 and the functions
//! that are looked up in the library at run time. Later versions keep this interface; each
//! structure has a mask of its valid fields, so that later fields are left out.
//!
//! The asserted sizes and offsets were measured with the headers of Debian's libucx-dev 1.13.1 on
//! x86-64.

use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::offset_of;

/// The version of the interface that is used.
pub const MAJOR: c_uint = 1;
pub const MINOR: c_uint = 13;

/// The status, a packed enumeration in C, one byte long. Negative values are errors.
pub type Status = i8;
pub const OK: Status = 0;
pub const IN_PROGRESS: Status = 1;
/// The lowest error: a returned pointer that is not less than this, as an address, is a status.
const LAST_ERROR: isize = -100;

/// Handles to opaque objects of UCX.
pub type Context = *mut c_void;
pub type Config = *mut c_void;
pub type Worker = *mut c_void;
pub type Listener = *mut c_void;
pub type Ep = *mut c_void;
pub type Memory = *mut c_void;
pub type RemoteKey = *mut c_void;
pub type ConnectionRequest = *mut c_void;
/// A result: null (done), a status or a request.
pub type StatusPointer = *mut c_void;

pub const FEATURE_RMA: u64 = 1 << 1;
pub const FEATURE_AMO64: u64 = 1 << 3;
pub const FEATURE_WAKEUP: u64 = 1 << 4;
pub const FEATURE_AM: u64 = 1 << 6;

#[repr(C)]
pub struct Params {
    pub field_mask: u64,
    pub features: u64,
    pub request_size: usize,
    pub request_init: *const c_void,
    pub request_cleanup: *const c_void,
    pub tag_sender_mask: u64,
    pub mt_workers_shared: c_int,
    pub estimated_num_eps: usize,
    pub estimated_num_ppn: usize,
    pub name: *const c_char,
}

impl Params {
    pub const FEATURES: u64 = 1;
}

#[repr(C)]
pub struct WorkerParams {
    pub field_mask: u64,
    pub thread_mode: c_uint,
    pub cpu_mask: [u64; 16],
    pub events: c_uint,
    pub user_data: *mut c_void,
    pub event_fd: c_int,
    pub flags: u64,
    pub name: *const c_char,
    pub am_alignment: usize,
    pub client_id: u64,
}

impl WorkerParams {
    pub const THREAD_MODE: u64 = 1;
    /// The mode in which only the thread that created the worker uses it.
    pub const SINGLE: c_uint = 0;
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct SocketAddress {
    pub address: *const c_void,
    pub length: u32,
}

pub type OnConnection = unsafe extern "C" fn(ConnectionRequest, *mut c_void);

#[repr(C)]
pub struct ListenerParams {
    pub field_mask: u64,
    pub address: SocketAddress,
    pub accept_handler: [*mut c_void; 2],
    pub on_connection: Option<OnConnection>,
    pub argument: *mut c_void,
}

impl ListenerParams {
    pub const ADDRESS: u64 = 1;
    pub const ON_CONNECTION: u64 = 1 << 2;
}

#[repr(C)]
pub struct ListenerAttributes {
    pub field_mask: u64,
    pub address: [u64; 16],
}

impl ListenerAttributes {
    pub const ADDRESS: u64 = 1;
}

pub type OnError = unsafe extern "C" fn(*mut c_void, Ep, Status);

#[repr(C)]
pub struct EpParams {
    pub field_mask: u64,
    pub worker_address: *const c_void,
    pub error_mode: c_uint,
    pub on_error: Option<OnError>,
    pub argument: *mut c_void,
    pub user_data: *mut c_void,
    pub flags: c_uint,
    pub address: SocketAddress,
    pub request: ConnectionRequest,
    pub name: *const c_char,
    pub local_address: SocketAddress,
}

impl EpParams {
    pub const ERROR_MODE: u64 = 1 << 1;
    pub const ON_ERROR: u64 = 1 << 2;
    pub const ADDRESS: u64 = 1 << 4;
    pub const FLAGS: u64 = 1 << 5;
    pub const REQUEST: u64 = 1 << 6;
    /// The mode that reports the failure of a peer.
    pub const PEER_ERRORS: c_uint = 1;
    pub const CLIENT_SERVER: c_uint = 1;
}

#[repr(C)]
pub struct MemoryParams {
    pub field_mask: u64,
    pub address: *mut c_void,
    pub length: usize,
    pub flags: c_uint,
    pub protection: c_uint,
    pub memory_type: c_uint,
}

impl MemoryParams {
    pub const ADDRESS: u64 = 1;
    pub const LENGTH: u64 = 1 << 1;
}

pub type OnSent = unsafe extern "C" fn(*mut c_void, Status, *mut c_void);

/// The parameters of a request. Zero is a valid value of each field.
#[repr(C)]
pub struct RequestParams {
    pub mask: u32,
    pub flags: u32,
    pub request: *mut c_void,
    pub on_sent: Option<OnSent>,
    pub datatype: u64,
    pub user_data: *mut c_void,
    pub reply_buffer: *mut c_void,
    pub memory_type: c_uint,
    pub received: *mut c_void,
    pub memory: Memory,
}

impl RequestParams {
    pub const DATATYPE: u32 = 1 << 3;
    pub const FLAGS: u32 = 1 << 4;
    pub const REPLY_BUFFER: u32 = 1 << 5;
    /// The type of contiguous elements of 8 bytes.
    pub const WORD: u64 = 8 << 3;
    /// The flag of an active message to which the receiver can reply.
    pub const REPLY: u32 = 1;
    /// The flag of an active message that is sent at once, and as a whole.
    pub const EAGER: u32 = 1 << 1;
    /// The flag of a close that does not wait for the peer.
    pub const FORCE: u32 = 1;
}

pub type OnMessage = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *const MessageParams,
) -> Status;

#[repr(C)]
pub struct OnMessageParams {
    pub field_mask: u64,
    pub id: c_uint,
    pub flags: u32,
    pub on_message: Option<OnMessage>,
    pub argument: *mut c_void,
}

impl OnMessageParams {
    /// The mask of number, flags, function and argument.
    pub const ALL: u64 = 0b1111;
    pub const WHOLE_MESSAGE: u32 = 1;
}

#[repr(C)]
pub struct MessageParams {
    pub attributes: u64,
    pub reply_ep: Ep,
}

impl MessageParams {
    pub const REPLY_EP: u64 = 1;
    /// The flag of a message whose data must be fetched first.
    pub const RENDEZVOUS: u64 = 1 << 17;
}

pub const ATOMIC_ADD: c_uint = 0;
pub const ATOMIC_COMPARE_SWAP: c_uint = 2;

const _: () = {
    assert!(size_of::<Params>() == 80 && offset_of!(Params, name) == 72);
    assert!(size_of::<WorkerParams>() == 200 && offset_of!(WorkerParams, cpu_mask) == 16);
    assert!(offset_of!(WorkerParams, event_fd) == 160);
    assert!(size_of::<ListenerParams>() == 56 && offset_of!(ListenerParams, on_connection) == 40);
    assert!(size_of::<ListenerAttributes>() == 136);
    assert!(size_of::<EpParams>() == 104 && offset_of!(EpParams, on_error) == 24);
    assert!(offset_of!(EpParams, flags) == 48 && offset_of!(EpParams, request) == 72);
    assert!(size_of::<MemoryParams>() == 40 && offset_of!(MemoryParams, memory_type) == 32);
    assert!(size_of::<RequestParams>() == 72 && offset_of!(RequestParams, reply_buffer) == 40);
    assert!(size_of::<OnMessageParams>() == 32 && offset_of!(OnMessageParams, on_message) == 16);
    assert!(size_of::<MessageParams>() == 16);
};

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The library's functions.
        pub struct Api {
            $(pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            /// Looks up all functions. The library stays loaded: it has threads and patches of its
            /// own in the process.
            pub fn find(library: Library) -> Result<Api, libloading::Error> {
                let api = Api {
                    // SAFETY: the names are those of functions of these types in UCX's interface
                    // 1.13, which later versions 1.x keep.
                    $($field: *unsafe { library.get($name) }?,)*
                };
                std::mem::forget(library);
                Ok(api)
            }
        }
    };
}

functions! {
    config_read = b"ucp_config_read\0": fn(*const c_char, *const c_char, *mut Config) -> Status;
    config_modify = b"ucp_config_modify\0": fn(Config, *const c_char, *const c_char) -> Status;
    config_release = b"ucp_config_release\0": fn(Config);
    init = b"ucp_init_version\0":
        fn(c_uint, c_uint, *const Params, Config, *mut Context) -> Status;
    cleanup = b"ucp_cleanup\0": fn(Context);
    worker_create = b"ucp_worker_create\0": fn(Context, *const WorkerParams, *mut Worker) -> Status;
    worker_destroy = b"ucp_worker_destroy\0": fn(Worker);
    worker_progress = b"ucp_worker_progress\0": fn(Worker) -> c_uint;
    worker_get_efd = b"ucp_worker_get_efd\0": fn(Worker, *mut c_int) -> Status;
    worker_arm = b"ucp_worker_arm\0": fn(Worker) -> Status;
    worker_fence = b"ucp_worker_fence\0": fn(Worker) -> Status;
    set_message_handler = b"ucp_worker_set_am_recv_handler\0":
        fn(Worker, *const OnMessageParams) -> Status;
    listener_create = b"ucp_listener_create\0":
        fn(Worker, *const ListenerParams, *mut Listener) -> Status;
    listener_query = b"ucp_listener_query\0": fn(Listener, *mut ListenerAttributes) -> Status;
    listener_destroy = b"ucp_listener_destroy\0": fn(Listener);
    ep_create = b"ucp_ep_create\0": fn(Worker, *const EpParams, *mut Ep) -> Status;
    ep_close = b"ucp_ep_close_nbx\0": fn(Ep, *const RequestParams) -> StatusPointer;
    ep_flush = b"ucp_ep_flush_nbx\0": fn(Ep, *const RequestParams) -> StatusPointer;
    memory_map = b"ucp_mem_map\0": fn(Context, *const MemoryParams, *mut Memory) -> Status;
    memory_unmap = b"ucp_mem_unmap\0": fn(Context, Memory) -> Status;
    key_pack = b"ucp_rkey_pack\0": fn(Context, Memory, *mut *mut c_void, *mut usize) -> Status;
    key_release = b"ucp_rkey_buffer_release\0": fn(*mut c_void);
    key_unpack = b"ucp_ep_rkey_unpack\0": fn(Ep, *const c_void, *mut RemoteKey) -> Status;
    key_pointer = b"ucp_rkey_ptr\0": fn(RemoteKey, u64, *mut *mut c_void) -> Status;
    key_destroy = b"ucp_rkey_destroy\0": fn(RemoteKey);
    get = b"ucp_get_nbx\0":
        fn(Ep, *mut c_void, usize, u64, RemoteKey, *const RequestParams) -> StatusPointer;
    put = b"ucp_put_nbx\0":
        fn(Ep, *const c_void, usize, u64, RemoteKey, *const RequestParams) -> StatusPointer;
    atomic = b"ucp_atomic_op_nbx\0":
        fn(Ep, c_uint, *const c_void, usize, u64, RemoteKey, *const RequestParams) -> StatusPointer;
    send = b"ucp_am_send_nbx\0":
        fn(
            Ep,
            c_uint,
            *const c_void,
            usize,
            *const c_void,
            usize,
            *const RequestParams
        ) -> StatusPointer;
    request_status = b"ucp_request_check_status\0": fn(*mut c_void) -> Status;
    request_free = b"ucp_request_free\0": fn(*mut c_void);
    status_string = b"ucs_status_string\0": fn(Status) -> *const c_char;
}

/// Returns the version of a library, by a function that exists since 1.0.
pub fn version(library: &Library) -> Result<(u32, u32), libloading::Error> {
    type GetVersion = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint);
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: the function of this name has this type, and writes to the three numbers.
    unsafe {
        let get = library.get::<GetVersion>(b"ucp_get_version\0")?;
        get(&mut major, &mut minor, &mut release);
    }
    Ok((major, minor))
}

impl Api {
    /// Returns UCX's description of a status.
    pub fn describe(&self, status: Status) -> String {
        // SAFETY: any number is valid; the result is a constant, or a text of the thread that stays
        // until its next call.
        let text = unsafe { CStr::from_ptr((self.status_string)(status)) };
        text.to_string_lossy().into_owned()
    }
}

/// Returns the status of a returned pointer, if there is no request to wait for.
pub fn status_of(pointer: StatusPointer) -> Option<Status> {
    let address = pointer as isize;
    (address == 0 || (LAST_ERROR..0).contains(&address)).then_some(address as Status)
}
