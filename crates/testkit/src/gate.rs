//! A gate that holds a handler, so that a backlog can be built behind it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::patience::expect;

/// Holds who passes through it until it is opened; clones are the same gate.
///
/// ```
/// # fn main() { tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let gate = procession_testkit::Gate::closed();
/// let held = tokio::spawn({ let gate = gate.clone(); async move { gate.pass().await } });
/// gate.arrived(1).await;
/// assert!(!held.is_finished());
/// gate.open();
/// held.await.unwrap();
/// # }) }
/// ```
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<State>>);

#[derive(Debug, Clone, Copy)]
struct State {
    is_open: bool,
    arrived: usize,
}

impl Gate {
    /// A gate that holds.
    #[must_use]
    pub fn closed() -> Self {
        let state = State {
            is_open: false,
            arrived: 0,
        };
        Self(Arc::new(watch::Sender::new(state)))
    }

    /// A gate that holds nobody as yet.
    #[must_use]
    pub fn opened() -> Self {
        let gate = Self::closed();
        gate.open();
        gate
    }

    /// Waits until the gate is open.
    ///
    /// # Cancel safety
    /// Cancel safe; who gave up still counts as arrived.
    pub async fn pass(&self) {
        self.0.send_modify(|state| state.arrived += 1);
        // The sender is this gate's own, so it is there.
        let _ = self.0.subscribe().wait_for(|state| state.is_open).await;
    }

    /// Waits until this many have come to the gate since it was made.
    ///
    /// # Panics
    /// When they do not come within [`crate::PATIENCE`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn arrived(&self, count: usize) {
        let mut state = self.0.subscribe();
        let _ = expect(
            "who was to come to the gate",
            state.wait_for(|state| state.arrived >= count),
        )
        .await;
    }

    /// Holds who comes from now on.
    pub fn close(&self) {
        self.0.send_modify(|state| state.is_open = false);
    }

    /// Lets everybody through, those that wait and those that come.
    pub fn open(&self) {
        self.0.send_modify(|state| state.is_open = true);
    }
}
