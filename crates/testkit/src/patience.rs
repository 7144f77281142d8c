//! Waiting for what must come.

use std::{future::Future, time::Duration};

/// How long anything here waits for what must come, on tokio's clock: longer than any bound of the actors.
pub const PATIENCE: Duration = Duration::from_secs(3_600);

/// Waits for what must come.
///
/// # Panics
/// After [`PATIENCE`].
pub(crate) async fn expect<T>(what: &str, future: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(PATIENCE, future).await else {
        panic!("{what} did not come within {} s", PATIENCE.as_secs());
    };
    value
}
