use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Keeps everything.
#[derive(Default)]
struct Model {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Model {
    fn bytes(&mut self, stream: StreamId) -> &mut Vec<u8> {
        match stream {
            StreamId::Stdout => &mut self.stdout,
            StreamId::Stderr => &mut self.stderr,
        }
    }

    fn gap(&mut self, stream: StreamId, cap: usize) -> Option<Range<u64>> {
        let total = self.bytes(stream).len();
        (total > cap).then(|| (cap / 2) as u64..(total - (cap - cap / 2)) as u64)
    }
}

/// Different bytes at every offset within a long stretch.
fn sample(seed: usize, len: usize) -> Vec<u8> {
    (seed..seed + len)
        .map(|at| (at ^ (at >> 8)).to_le_bytes()[0])
        .collect()
}

fn stream() -> impl Strategy<Value = StreamId> {
    prop::sample::select(StreamId::ALL.to_vec())
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..20_usize, 2 => 0..600_usize, 2 => 3_000..6_000_usize, 1 => 60_000..70_000_usize]
}

/// What `range` gives, checked to be without a hole, against the model.
fn check_range(
    capture: &Capture,
    model: &mut Model,
    stream: StreamId,
    from: u64,
) -> Result<(), TestCaseError> {
    let all = model.bytes(stream).clone();
    let mut next = from;
    for piece in capture.range(stream, from) {
        match piece {
            Piece::Bytes { at, bytes } => {
                prop_assert_eq!(at, next);
                prop_assert!(!bytes.is_empty());
                let start = usize::try_from(at).unwrap();
                prop_assert_eq!(bytes, &all[start..start + bytes.len()]);
                next += bytes.len() as u64;
            }
            Piece::Gap { from: start, to } => {
                prop_assert_eq!(start, next);
                let gap = capture.gap(stream).unwrap();
                prop_assert_eq!((start, to), (gap.start.max(from), gap.end));
                next = to;
            }
        }
    }
    prop_assert_eq!(next, from.max(all.len() as u64));
    Ok(())
}

proptest! {
    #[test]
    fn a_capture_keeps_head_and_tail_and_counts_the_rest(
        cap in prop_oneof![64..400_usize, 4_000..300_000_usize],
        pushes in vec((stream(), len(), any::<prop::sample::Index>()), 0..80),
    ) {
        let (mut capture, mut model) = (Capture::new(cap), Model::default());
        for (stream, len, from) in pushes {
            let piece = sample(model.bytes(stream).len(), len);
            model.bytes(stream).extend_from_slice(&piece);
            capture.push(stream, piece.into());
            let total = model.bytes(stream).len();
            prop_assert_eq!(capture.total(stream), total as u64);
            prop_assert_eq!(capture.gap(stream), model.gap(stream, cap));
            check_range(&capture, &mut model, stream, 0)?;
            check_range(&capture, &mut model, stream, from.index(total + 2) as u64)?;
        }
        prop_assert_eq!(capture.total_bytes(), (model.stdout.len() + model.stderr.len()) as u64);
        prop_assert!(capture.memory_bytes() <= 2 * (cap + cap / 16) + 128 * 1024);
    }

    #[test]
    fn a_copied_range_is_what_was_written_there(
        lens in vec(len(), 0..20), start in any::<prop::sample::Index>(), end in any::<prop::sample::Index>(),
    ) {
        let mut capture = Capture::new(usize::MAX);
        let mut all = Vec::new();
        for len in lens {
            let piece = sample(all.len(), len);
            all.extend_from_slice(&piece);
            capture.push(StreamId::Stderr, piece.into());
        }
        let (start, end) = (start.index(all.len() + 1), end.index(all.len() + 1));
        let mut copied = Vec::new();
        capture.copy_to(StreamId::Stderr, start as u64..end as u64, &mut copied);
        prop_assert_eq!(copied, all.get(start..end).unwrap_or_default());
    }
}

/// A piece of `len` bytes out of an allocation that the counter sees.
fn counted(len: usize, counter: &Arc<()>) -> Bytes {
    struct Block(
        Vec<u8>,
        #[expect(dead_code, reason = "held to be counted")] Arc<()>,
    );
    impl AsRef<[u8]> for Block {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Block(vec![b'x'; 64 * 1024], Arc::clone(counter))).slice(..len)
}

#[test]
fn a_small_piece_does_not_hold_its_block() {
    let (mut capture, blocks) = (Capture::new(1 << 20), Arc::new(()));
    for _ in 0..100 {
        capture.push(StreamId::Stdout, counted(KEEP_FROM - 1, &blocks));
    }
    assert_eq!(Arc::strong_count(&blocks), 1);
}

#[test]
fn a_large_piece_is_kept_without_a_copy_until_it_has_rolled_out() {
    let (mut capture, blocks) = (Capture::new(1 << 17), Arc::new(()));
    capture.push(StreamId::Stdout, vec![b'x'; 1 << 16].into());
    let piece = counted(KEEP_FROM, &blocks);
    let memory = piece.as_ptr();
    capture.push(StreamId::Stdout, piece);
    let kept = capture.range(StreamId::Stdout, 1 << 16).next();
    assert!(matches!(kept, Some(Piece::Bytes { bytes, .. }) if bytes.as_ptr() == memory));
    assert_eq!(Arc::strong_count(&blocks), 2);
    capture.push(StreamId::Stdout, vec![b'y'; 1 << 16].into());
    assert_eq!(Arc::strong_count(&blocks), 1);
}

#[test]
fn the_head_does_not_hold_a_block_of_which_it_has_a_part() {
    let (mut capture, blocks) = (Capture::new(1 << 16), Arc::new(()));
    capture.push(StreamId::Stdout, counted(40_000, &blocks));
    capture.push(StreamId::Stdout, vec![b'y'; 1 << 16].into());
    assert_eq!(Arc::strong_count(&blocks), 1);
}

#[test]
fn millions_of_single_bytes_take_no_more_than_their_number() {
    let cap = 1 << 20;
    let mut capture = Capture::new(cap);
    for at in 1..=3_000_000_usize {
        capture.push(StreamId::Stdout, Bytes::from_static(b"x"));
        if at % 50_000 == 0 {
            let kept = at.min(cap);
            assert!(
                capture.memory_bytes() <= kept + 64 * 1024,
                "{} bytes after {at}",
                capture.memory_bytes()
            );
        }
    }
    assert_eq!(capture.total(StreamId::Stdout), 3_000_000);
}

#[test]
fn small_pieces_between_large_ones_share_a_block() {
    let mut capture = Capture::new(1 << 20);
    for piece in [&b"x"[..], &[b'y'; KEEP_FROM], b"z"] {
        capture.push(StreamId::Stdout, Bytes::copy_from_slice(piece));
    }
    let pieces = capture.range(StreamId::Stdout, 0).map(|piece| match piece {
        Piece::Bytes { bytes, .. } => (bytes.as_ptr(), bytes.len()),
        Piece::Gap { from, to } => panic!("a gap from {from} to {to}"),
    });
    let [(small, 1), _, (next_small, 1)] = pieces.collect::<Vec<_>>()[..] else {
        panic!("the pieces were merged or split")
    };
    assert_eq!(next_small, small.wrapping_add(1));
}

#[test]
fn an_empty_capture_has_no_memory_of_its_own() {
    assert_eq!(Capture::new(1 << 30).memory_bytes(), size_of::<Capture>());
}

#[test]
fn a_cap_below_the_smallest_counts_as_that() {
    assert_eq!(Capture::new(0).cap_bytes(), Capture::MIN_CAP_BYTES);
    assert_eq!(Capture::new(65).cap_bytes(), 65);
}

#[test]
fn streams_are_closed_one_by_one() {
    let mut capture = Capture::new(4096);
    capture.close(StreamId::Stderr);
    capture.close(StreamId::Stderr);
    assert_eq!(
        StreamId::ALL.map(|stream| capture.is_closed(stream)),
        [false, true]
    );
    capture.push(StreamId::Stderr, Bytes::from_static(b"late"));
    assert_eq!(capture.total(StreamId::Stderr), 4);
}
