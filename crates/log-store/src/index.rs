//! Where in the index of a segment an offset is found.

/// How many entries are read from the index at once.
pub(crate) const BLOCK_ENTRIES: u64 = 32;

/// The most points kept for one segment: 8 KiB.
const MAX_POINTS: usize = 1024;

/// The offsets of every n-th entry of a segment, in bounded memory.
///
/// Entries have one size, so the number of an entry says where it lies in the file. Once there are too many points,
/// every second is dropped; what is then left to find is a binary search in the file.
#[derive(Debug, Clone)]
pub(crate) struct SparseIndex {
    points: Vec<u64>,
    stride: u64,
    entries: u64,
}

impl SparseIndex {
    pub(crate) fn new() -> Self {
        Self {
            points: Vec::new(),
            stride: BLOCK_ENTRIES,
            entries: 0,
        }
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Notes the offset of the next entry.
    pub(crate) fn push(&mut self, offset: u64) {
        if self.entries.is_multiple_of(self.stride) {
            if self.points.len() >= MAX_POINTS {
                let mut number = 0_usize;
                self.points.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.stride = self.stride.saturating_mul(2);
            }
            if self.entries.is_multiple_of(self.stride) {
                self.points.push(offset);
            }
        }
        self.entries += 1;
    }

    /// The numbers of the entries, lower inclusive, upper exclusive, among which the one with `offset` is. The lower
    /// is a multiple of [`BLOCK_ENTRIES`].
    pub(crate) fn locate(&self, offset: u64) -> (u64, u64) {
        let point = self
            .points
            .partition_point(|point| *point <= offset)
            .saturating_sub(1);
        let first = crate::offset::bytes_u64(point).saturating_mul(self.stride);
        (first, first.saturating_add(self.stride).min(self.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_within_what_it_locates_and_memory_is_bounded() {
        for entries in [1_u64, 31, 32, 33, 5000, 400_000] {
            let mut index = SparseIndex::new();
            for entry in 0..entries {
                index.push(entry * 3);
            }
            assert!(index.points.len() <= MAX_POINTS);
            for entry in (0..entries).step_by(61).chain([entries - 1]) {
                let (first, end) = index.locate(entry * 3 + 2);
                assert!(
                    (first..end).contains(&entry),
                    "{entry} of {entries} not in {first}..{end}"
                );
                assert_eq!(first % BLOCK_ENTRIES, 0);
                assert!(end - first <= index.stride);
            }
        }
    }
}
