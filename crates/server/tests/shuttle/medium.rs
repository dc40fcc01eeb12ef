//! A file that other threads run beside, and that fails when a scenario says so.

use nearfield_server::disk::DiskFile;
use nearfield_server::log::LogFile;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a file holds.
#[derive(Debug, Default)]
struct Content {
    written: Vec<u8>,
    /// Up to where it is on the medium.
    synced: usize,
    /// The writes, and the syncs, that fail from now on.
    failing: [usize; 2],
}

/// A file of the model. A write or a sync lets other threads run before and after it.
#[derive(Clone, Debug, Default)]
pub struct Medium(Arc<Mutex<Content>>);

impl Medium {
    /// One whose first `writes` writes and first `syncs` syncs fail.
    pub fn failing(writes: usize, syncs: usize) -> Medium {
        let medium = Medium::default();
        medium.content().failing = [writes, syncs];
        medium
    }

    /// As a file for a log.
    pub fn file(&self, name: &str) -> LogFile {
        LogFile {
            file: Arc::new(self.clone()),
            path: name.into(),
            tag: None,
            length: 0,
            synced: 0,
        }
    }

    /// True if these bytes are written, or if `synced`, on the medium.
    pub fn holds(&self, bytes: &[u8], synced: bool) -> bool {
        let content = self.content();
        let end = match synced {
            true => content.synced,
            false => content.written.len(),
        };
        position(&content.written[..end], bytes).is_some()
    }

    /// The places of several byte strings in what is written; each has to be there.
    pub fn places(&self, all: &[Vec<u8>]) -> Vec<usize> {
        let content = self.content();
        let place = |bytes: &Vec<u8>| position(&content.written, bytes);
        all.iter()
            .map(|bytes| place(bytes).expect("bytes that were acknowledged"))
            .collect()
    }

    /// Never held while another thread may run.
    fn content(&self) -> MutexGuard<'_, Content> {
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

impl DiskFile for Medium {
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
