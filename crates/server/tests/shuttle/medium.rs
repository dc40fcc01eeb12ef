//! A file that lets other threads run during its operations, and that fails on request.

use nearfield_server::disk::PersistenceFile;
use nearfield_server::log::LogFile;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// The content of a file.
#[derive(Debug, Default)]
struct MediumContent {
    written: Vec<u8>,
    /// Offset up to which it is on the medium.
    synced: usize,
    /// Numbers of the next writes, and of the next syncs, that fail.
    failing: [usize; 2],
}

/// A file of the model. A write or a sync lets other threads run before and after it.
#[derive(Clone, Debug, Default)]
pub struct Medium(Arc<Mutex<MediumContent>>);

impl Medium {
    /// Creates a file that fails its first `writes` writes and first `syncs` syncs.
    pub fn failing(writes: usize, syncs: usize) -> Medium {
        let medium = Medium::default();
        medium.content().failing = [writes, syncs];
        medium
    }

    /// Returns this as a file for a log.
    pub fn file(&self, name: &str) -> LogFile {
        LogFile {
            file: Arc::new(self.clone()),
            path: name.into(),
            tag: None,
            length: 0,
            synced: 0,
        }
    }

    /// Returns true if these bytes are written; if `synced`, that they are on the medium.
    pub fn holds(&self, bytes: &[u8], synced: bool) -> bool {
        let content = self.content();
        let end = match synced {
            true => content.synced,
            false => content.written.len(),
        };
        position(&content.written[..end], bytes).is_some()
    }

    /// Returns the positions of several byte strings in the written bytes; each must be there.
    pub fn places(&self, all: &[Vec<u8>]) -> Vec<usize> {
        let content = self.content();
        let place = |bytes: &Vec<u8>| position(&content.written, bytes);
        all.iter()
            .map(|bytes| place(bytes).expect("bytes that were acknowledged"))
            .collect()
    }

    /// Locks the content. The lock is never held while another thread may run.
    fn content(&self) -> MutexGuard<'_, MediumContent> {
        self.0.lock().expect("no thread fails with it")
    }

    fn fails(&self, kind: usize) -> bool {
        let failing = &mut self.content().failing[kind];
        let fails = *failing > 0;
        *failing -= usize::from(fails);
        fails
    }
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

impl PersistenceFile for Medium {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        shuttle::thread::yield_now();
        if self.fails(0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.content().written.extend_from_slice(bytes);
        shuttle::thread::yield_now();
        Ok(bytes.len())
    }

    fn sync(&self) -> io::Result<()> {
        let written = self.content().written.len();
        shuttle::thread::yield_now();
        if self.fails(1) {
            return Err(io::ErrorKind::Other.into());
        }
        let mut content = self.content();
        content.synced = content.synced.max(written);
        drop(content);
        shuttle::thread::yield_now();
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.content().written.truncate(length as usize);
        Ok(())
    }
}
