//! Memory aligned to sectors, as reads and writes that bypass the system's cache require.

use super::SECTOR_BYTES;

/// A sector in memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4096))]
struct Sector([u8; SECTOR_BYTES]);

const _: () = assert!(align_of::<Sector>() == SECTOR_BYTES);
const _: () = assert!(
    size_of::<Sector>() == SECTOR_BYTES,
    "a sector has no padding"
);

/// Bytes in whole sectors.
#[derive(Debug, Default)]
pub(super) struct AlignedBuffer {
    sectors: Vec<Sector>,
}

impl AlignedBuffer {
    /// Makes the buffer at least `bytes` long. Its content stays; new bytes are 0.
    pub(super) fn lengthen(&mut self, bytes: usize) {
        let sectors = bytes.div_ceil(SECTOR_BYTES);
        if sectors > self.sectors.len() {
            self.sectors.resize(sectors, Sector([0; SECTOR_BYTES]));
        }
    }

    /// Copies bytes to the beginning.
    pub(super) fn begin_with(&mut self, bytes: &[u8]) {
        self.lengthen(bytes.len());
        if let Some(begin) = self.bytes_mut().get_mut(..bytes.len()) {
            begin.copy_from_slice(bytes);
        }
    }

    /// Frees the memory beyond `bytes`.
    pub(super) fn shorten(&mut self, bytes: usize) {
        self.sectors.truncate(bytes.div_ceil(SECTOR_BYTES));
        self.sectors.shrink_to_fit();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let length = size_of_val(self.sectors.as_slice());
        // SAFETY: the sectors are `length` contiguous initialized bytes, because `Sector` has no
        // padding, and every bit pattern is a valid byte. They live as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.sectors.as_ptr().cast(), length) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let length = size_of_val(self.sectors.as_slice());
        // SAFETY: as for `bytes`; `self` is borrowed exclusively, and any bytes make a valid
        // sector.
        unsafe { std::slice::from_raw_parts_mut(self.sectors.as_mut_ptr().cast(), length) }
    }
}
