//! Who is who: sessions, owners, requests.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Crockford's base 32 in lower case: no `i`, `l`, `o` or `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const PREFIX: &str = "ps_";

/// How many random bytes make an id.
pub const SESSION_ID_BYTES: usize = 10;

/// A session's name: `ps_` and 16 lower-case Crockford base-32 characters, 80 random bits.
///
/// Never a pid, never reused, in no order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId([u8; SESSION_ID_BYTES]);

impl SessionId {
    /// The id made of these random bytes.
    #[must_use]
    pub const fn from_random(bytes: [u8; SESSION_ID_BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; 16];
        // 5 bytes are 8 characters, twice.
        for (half, five) in self.0.chunks_exact(5).enumerate() {
            let bits = five.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
            for place in 0..8 {
                let digit = bits >> (35 - 5 * place) & 31;
                text[half * 8 + place] = ALPHABET[usize::try_from(digit).unwrap_or_default()];
            }
        }
        write!(f, "{PREFIX}{}", String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What was given does not have the form of a session's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a session id is `ps_` and 16 lower-case characters of Crockford's base 32")]
pub struct MalformedSessionId;

impl FromStr for SessionId {
    type Err = MalformedSessionId;

    fn from_str(text: &str) -> Result<Self, MalformedSessionId> {
        let digits = text.strip_prefix(PREFIX).ok_or(MalformedSessionId)?.as_bytes();
        if digits.len() != 16 {
            return Err(MalformedSessionId);
        }
        let mut bytes = [0; SESSION_ID_BYTES];
        for (half, eight) in digits.chunks_exact(8).enumerate() {
            let mut bits = 0_u64;
            for character in eight {
                let digit = ALPHABET
                    .iter()
                    .position(|known| known == character)
                    .ok_or(MalformedSessionId)?;
                bits = bits << 5 | u64::try_from(digit).map_err(|_| MalformedSessionId)?;
            }
            bytes[half * 5..half * 5 + 5].copy_from_slice(&bits.to_be_bytes()[3..]);
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for SessionId {
    type Error = MalformedSessionId;

    fn try_from(text: String) -> Result<Self, MalformedSessionId> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

/// To whom a session belongs: equal in all three parts or not the same, nothing in between.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// On whose behalf, for example a user or a tenant; budgets are nested by it.
    pub principal: String,
    /// Which agent of the principal's.
    pub agent: String,
    /// An unguessable value that the host makes, never derived from what a model says.
    pub scope: String,
}

impl Owner {
    /// The owner of these three parts.
    pub fn new(principal: impl Into<String>, agent: impl Into<String>, scope: impl Into<String>) -> Self {
        Self {
            principal: principal.into(),
            agent: agent.into(),
            scope: scope.into(),
        }
    }
}

impl fmt::Debug for Owner {
    /// Leaves the scope out: who knows it may act as the owner.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("principal", &self.principal)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// A caller's own name for one request; the same name from the same owner is the same request.
///
/// At most [`RequestId::MAX_BYTES`] long.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(String);

impl RequestId {
    /// The longest request id, in bytes, inclusive.
    pub const MAX_BYTES: usize = 128;

    /// The request's name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request id is empty or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a request id has 1 to {} bytes, this one has {bytes}", RequestId::MAX_BYTES)]
pub struct MalformedRequestId {
    /// How long it is.
    pub bytes: usize,
}

impl TryFrom<String> for RequestId {
    type Error = MalformedRequestId;

    fn try_from(text: String) -> Result<Self, MalformedRequestId> {
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return Err(MalformedRequestId { bytes: text.len() });
        }
        Ok(Self(text))
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_has_the_documented_form() {
        assert_eq!(SessionId::from_random([0; 10]).to_string(), "ps_0000000000000000");
        assert_eq!(
            SessionId::from_random([255; 10]).to_string(),
            "ps_zzzzzzzzzzzzzzzz"
        );
        assert_eq!(
            SessionId::from_random([0, 0, 0, 0, 1, 8, 0, 0, 0, 0]).to_string(),
            "ps_0000000110000000"
        );
    }

    #[test]
    fn what_is_not_an_id_is_refused() {
        for text in [
            "",
            "ps_",
            "ps_000000000000000",
            "ps_00000000000000000",
            "ps_000000000000000i",
            "PS_0000000000000000",
            "12345",
        ] {
            assert_eq!(text.parse::<SessionId>(), Err(MalformedSessionId), "{text}");
        }
    }

    #[test]
    fn an_owner_does_not_show_its_scope() {
        let shown = format!("{:?}", Owner::new("p", "a", "unguessable"));
        assert!(!shown.contains("unguessable"), "{shown}");
    }

    #[test]
    fn a_request_id_has_bounds() {
        assert_eq!(
            RequestId::try_from(String::new()),
            Err(MalformedRequestId { bytes: 0 })
        );
        assert!(RequestId::try_from("x".repeat(128)).is_ok());
        assert_eq!(
            RequestId::try_from("x".repeat(129)),
            Err(MalformedRequestId { bytes: 129 })
        );
    }

    proptest! {
        #[test]
        fn every_id_reads_back(bytes: [u8; 10]) {
            let id = SessionId::from_random(bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
