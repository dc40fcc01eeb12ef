//! The placement of a server's keys.

use super::database::DATABASES;
use super::index::{AnyMap, DatabaseIndex};
use nearfield::{
    ByteStrings, Combine, EngineOptions, OperationError, OrderedMap, Pim, PoolPlacement, PoolUse,
    StoreOpenError,
};
use std::sync::Arc;

/// The placement of all databases of a server. Objects other than short strings, and the times at
/// which keys expire, are stored in the memory of the server, unless the placement is shared.
#[derive(Clone, Debug, Default)]
pub enum Home {
    /// The memory of this process.
    #[default]
    Local,
    /// Modules with processors of their own. Each database has modules of its own.
    Modules(Pim),
    /// A map in a pool of memory nodes. Other servers read and change it at the same time.
    Pool(Arc<AnyMap>),
}

/// The byte before the times at which the keys of a shared map expire. The byte before each key is
/// the number of its database.
const EXPIRIES: u8 = 0x80;

// Prefixes are distinct, and a range ends at the prefix after its own.
const _: () = assert!(DATABASES <= EXPIRIES as usize && EXPIRIES < u8::MAX);

/// The number of bytes before a key in the note of its time in a shared map: the prefix, the time
/// and the number of the database.
pub(super) const NOTE_BYTES: usize = 1 + 8 + 1;
/// The maximum length of a stored value that is kept next to its key in a pool, where each key
/// takes that much. A longer value costs another round trip.
const INLINE_BYTES: usize = 64;

impl Home {
    /// Opens the keys in a pool, whose longest key has `key_bytes_max` bytes. They are empty if no
    /// server has opened the pool before. Keys of up to `key_slot_bytes` bytes are stored as a
    /// whole in their entries, which reserve that length; `None`: all keys are.
    ///
    /// # Errors
    /// As `PoolBuilder::build`.
    pub fn open_pool(
        pool: PoolPlacement,
        key_bytes_max: usize,
        key_slot_bytes: Option<usize>,
    ) -> Result<Home, StoreOpenError> {
        let map = Home::pool_map(pool, key_bytes_max, key_slot_bytes)?;
        Ok(Home::Pool(Arc::new(map.into())))
    }

    /// Opens the map in a pool that servers use, without a server.
    ///
    /// # Errors
    /// As `PoolBuilder::build`.
    pub fn pool_map(
        pool: PoolPlacement,
        key_bytes_max: usize,
        key_slot_bytes: Option<usize>,
    ) -> Result<OrderedMap<ByteStrings, PoolPlacement>, StoreOpenError> {
        let mut builder = OrderedMap::<ByteStrings>::builder()
            .pool(pool)
            .key_bytes_max(key_bytes_max.saturating_add(NOTE_BYTES))
            .inline_bytes_max(INLINE_BYTES);
        if let Some(bytes) = key_slot_bytes {
            builder = builder.key_slot_bytes(bytes.saturating_add(NOTE_BYTES));
        }
        builder.build()
    }

    /// Returns the name of the placement, as `--placement` takes it.
    pub fn name(&self) -> &'static str {
        match self {
            Home::Local => "local",
            Home::Modules(_) => "pim",
            Home::Pool(_) => "pool",
        }
    }

    /// Returns the use of the pool by this server, if the keys are in one.
    pub fn pool_use(&self) -> Option<PoolUse> {
        match self {
            Home::Pool(map) => map.pool_use(),
            Home::Local | Home::Modules(_) => None,
        }
    }

    /// Returns true if other servers read and change the same keys.
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self, Home::Pool(_))
    }

    /// Returns true if other threads see the operations of a batch take effect in their order.
    #[inline]
    pub fn keeps_order(&self) -> bool {
        matches!(self, Home::Local)
    }

    /// Creates an index for the keys of a database. It is empty unless it is shared.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn entries(&self, database: u8) -> Result<DatabaseIndex, OperationError> {
        Ok(match self {
            Home::Local => DatabaseIndex::Own(in_order()?.into()),
            Home::Modules(pim) => {
                let map = OrderedMap::<ByteStrings>::builder()
                    .pim(pim.clone())
                    .build()?;
                DatabaseIndex::Own(map.into())
            }
            Home::Pool(map) => DatabaseIndex::Part(Arc::clone(map), database),
        })
    }

    /// Creates an index for the times at which keys expire: of one database, or of all if it is
    /// shared.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn expiries(&self) -> Result<DatabaseIndex, OperationError> {
        Ok(match self {
            Home::Pool(map) => DatabaseIndex::Part(Arc::clone(map), EXPIRIES),
            _ => DatabaseIndex::Own(OrderedMap::<ByteStrings>::new()?.into()),
        })
    }
}

/// Creates a map in local memory that executes the point operations of a batch in their order.
fn in_order() -> Result<OrderedMap<ByteStrings>, OperationError> {
    let options = EngineOptions {
        // Combining sorts by key. A client that sees the last write of a pipeline must see the
        // writes before it, too.
        combine: Combine::Never,
        ..EngineOptions::default()
    };
    OrderedMap::<ByteStrings>::builder()
        .engine_options(options)
        .build()
}
