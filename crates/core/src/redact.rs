//! Secrets of the host, replaced in what sessions write.

#[cfg(test)]
mod tests;

use std::{fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use bytes::{Bytes, BytesMut};

/// The shortest secret, in bytes, inclusive: a shorter one stands in ordinary text too often to be replaced there.
pub const MIN_SECRET_BYTES: usize = 8;
/// The longest secret, in bytes, inclusive.
pub const MAX_SECRET_BYTES: usize = 8 << 10;
/// The most that all secrets of a set may have together, in bytes, inclusive.
pub const MAX_SECRETS_BYTES_TOTAL: usize = 256 << 10;
/// What stands in the place of a secret.
pub const REPLACEMENT: &[u8] = b"***";

/// A value that no output may show. It shows itself nowhere either.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes a value; line ends behind it are not part of it, for they are mostly a file's and not the value's.
    ///
    /// # Errors
    /// [`SecretError`] when it is shorter than [`MIN_SECRET_BYTES`] or longer than [`MAX_SECRET_BYTES`].
    pub fn new(value: impl Into<Vec<u8>>) -> Result<Self, SecretError> {
        let mut value = value.into();
        while matches!(value.last(), Some(b'\n' | b'\r')) {
            value.pop();
        }
        match value.len() {
            bytes if bytes < MIN_SECRET_BYTES => Err(SecretError::TooShort {
                bytes,
                min_bytes: MIN_SECRET_BYTES,
            }),
            bytes if bytes > MAX_SECRET_BYTES => Err(SecretError::TooLong {
                bytes,
                max_bytes: MAX_SECRET_BYTES,
            }),
            _ => Ok(Self(value)),
        }
    }

    /// How long it is, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The same with the line ends of a terminal, where it has several lines.
    fn on_a_terminal(&self) -> Option<Vec<u8>> {
        let mut lines = self.0.split(|byte| *byte == b'\n');
        let mut value = lines.next()?.to_vec();
        let mut is_changed = false;
        for line in lines {
            if value.last() != Some(&b'\r') {
                value.push(b'\r');
                is_changed = true;
            }
            value.push(b'\n');
            value.extend_from_slice(line);
        }
        is_changed.then_some(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([hidden])")
    }
}

/// Why a value cannot be replaced in output; never with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It is so short that it would be replaced in ordinary text.
    #[error(
        "a secret of {bytes} bytes is too short to be told from ordinary text, it has to have {min_bytes}"
    )]
    TooShort {
        /// Its length.
        bytes: usize,
        /// The shortest, inclusive.
        min_bytes: usize,
    },
    /// It is longer than what is looked for.
    #[error("a secret of {bytes} bytes is too long, it may have {max_bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest, inclusive.
        max_bytes: usize,
    },
    /// All secrets are longer together than what is looked for.
    #[error("secrets of {bytes} bytes together are too long, they may have {max_bytes}")]
    TooManyBytes {
        /// Their length together.
        bytes: usize,
        /// The most, inclusive.
        max_bytes: usize,
    },
    /// The search for them cannot be built.
    #[error("the search for the secrets cannot be built")]
    NotSearchable,
}

/// All secrets of a host, ready to be looked for; cheap to clone.
#[derive(Clone, Default)]
pub struct SecretSet(Option<Arc<Needles>>);

struct Needles {
    automaton: AhoCorasick,
    /// Sorted, each once.
    patterns: Vec<Vec<u8>>,
    longest: usize,
}

impl SecretSet {
    /// Prepares the search.
    ///
    /// # Errors
    /// [`SecretError::TooManyBytes`] beyond [`MAX_SECRETS_BYTES_TOTAL`].
    pub fn new(secrets: &[Secret]) -> Result<Self, SecretError> {
        let bytes = secrets.iter().map(Secret::bytes).fold(0, usize::saturating_add);
        if bytes > MAX_SECRETS_BYTES_TOTAL {
            return Err(SecretError::TooManyBytes {
                bytes,
                max_bytes: MAX_SECRETS_BYTES_TOTAL,
            });
        }
        let mut patterns: Vec<_> = secrets
            .iter()
            .flat_map(|secret| [Some(secret.0.clone()), secret.on_a_terminal()])
            .flatten()
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        let Some(longest) = patterns.iter().map(Vec::len).max() else {
            return Ok(Self::default());
        };
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // A table of all bytes for each state would take a thousand times the secrets' size.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&patterns)
            .map_err(|_| SecretError::NotSearchable)?;
        Ok(Self(Some(Arc::new(Needles {
            automaton,
            patterns,
            longest,
        }))))
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A redactor for one stream; none where there is nothing to look for.
    #[must_use]
    pub fn redactor(&self) -> Option<Redactor> {
        self.0.as_ref().map(|needles| Redactor {
            needles: Arc::clone(needles),
            held: Vec::new(),
            replacements: 0,
        })
    }
}

impl fmt::Debug for SecretSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.as_ref().map_or(0, |needles| needles.patterns.len());
        write!(f, "SecretSet({count} hidden)")
    }
}

/// Replaces secrets in one stream, wherever its pieces were cut.
///
/// The outputs of all pushes and of the flush are together what a search in the whole stream would give that takes the
/// secret that begins first, and of those that begin at the same byte the longest.
///
/// # Delay
///
/// The only bytes that are held back are those at the end of what came that could be the beginning of a secret, less
/// than the longest one has. They come out with the byte that decides, or at the end of the stream, and not before: a
/// process that pauses within a secret would show its first half otherwise. So a prompt that ends in the first bytes of
/// a secret is seen without them until something follows.
pub struct Redactor {
    needles: Arc<Needles>,
    /// Either empty or the beginning of a secret.
    held: Vec<u8>,
    replacements: u64,
}

/// What is known of the bytes behind those that are here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    Perhaps,
    Nothing,
}

impl Redactor {
    /// Takes the next bytes of the stream and gives those that are decided; without a copy where no secret is near.
    #[must_use = "what is not passed on is lost"]
    pub fn push(&mut self, piece: &Bytes) -> Bytes {
        if self.held.is_empty() {
            let (found, decided) = self.needles.search(piece, Follows::Perhaps);
            self.held.extend_from_slice(&piece[decided..]);
            if found.is_empty() {
                return piece.slice(..decided);
            }
            return self.replaced(&piece[..decided], &found);
        }
        self.held.extend_from_slice(piece);
        let (found, decided) = self.needles.search(&self.held, Follows::Perhaps);
        if decided == 0 {
            return Bytes::new();
        }
        let rest = self.held.split_off(decided);
        let bytes = std::mem::replace(&mut self.held, rest);
        self.replaced(&bytes, &found)
    }

    /// Gives what was held back; to be called when nothing more can come.
    #[must_use = "what is not passed on is lost"]
    pub fn flush(&mut self) -> Bytes {
        let bytes = std::mem::take(&mut self.held);
        let (found, _) = self.needles.search(&bytes, Follows::Nothing);
        self.replaced(&bytes, &found)
    }

    /// How many secrets were replaced.
    #[must_use]
    pub const fn replacements(&self) -> u64 {
        self.replacements
    }

    /// How many bytes are held back.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn replaced(&mut self, bytes: &[u8], found: &[Range<usize>]) -> Bytes {
        self.replacements = self.replacements.saturating_add(found.len() as u64);
        let mut replaced = BytesMut::with_capacity(bytes.len());
        let mut at = 0;
        for secret in found {
            replaced.extend_from_slice(&bytes[at..secret.start]);
            replaced.extend_from_slice(REPLACEMENT);
            at = secret.end;
        }
        replaced.extend_from_slice(&bytes[at..]);
        replaced.freeze()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("held_bytes", &self.held.len())
            .field("replacements", &self.replacements)
            .finish_non_exhaustive()
    }
}

impl Needles {
    /// The secrets in `bytes` and up to where that is decided: behind it, what follows could change it.
    fn search(&self, bytes: &[u8], follows: Follows) -> (Vec<Range<usize>>, usize) {
        let undecided_from = |from| match follows {
            Follows::Perhaps => self.beginning(bytes, from),
            Follows::Nothing => bytes.len(),
        };
        let (mut found, mut at) = (Vec::new(), 0);
        let mut decided = undecided_from(at);
        while let Some(secret) = self.automaton.find(Input::new(bytes).range(at..)) {
            // INVARIANT: no secret that begins before `decided` reaches beyond the bytes that are here, so the first of
            // them that was found is the first, and the longest at its place.
            if secret.start() >= decided {
                break;
            }
            at = secret.end();
            found.push(secret.range());
            if decided < at {
                decided = undecided_from(at);
            }
        }
        (found, decided)
    }

    /// The first place at or behind `from` from which on `bytes` are the beginning of a secret and not all of it.
    fn beginning(&self, bytes: &[u8], from: usize) -> usize {
        let reach = bytes.len().saturating_sub(self.longest - 1);
        (reach.max(from)..bytes.len())
            .find(|at| self.is_beginning(&bytes[*at..]))
            .unwrap_or(bytes.len())
    }

    fn is_beginning(&self, bytes: &[u8]) -> bool {
        // Those that begin with the bytes stand in a row, the bytes themselves first.
        let first = self
            .patterns
            .partition_point(|pattern| pattern.as_slice() <= bytes);
        self.patterns
            .get(first)
            .is_some_and(|pattern| pattern.starts_with(bytes))
    }
}
