//! This process's standard streams.

use tokio::io::{AsyncRead, AsyncWrite};

/// Standard input and output of this process, for [`serve`](crate::serve).
///
/// Where both are pipes, as clients start servers, they are read and written without a blocking thread, so that nothing
/// holds up the end of the process; else a read that is under way does, until `std::process::exit`.
///
/// # Panics
/// Outside of a tokio runtime with IO.
#[must_use]
pub fn stdio() -> (
    impl AsyncRead + Send + Unpin + 'static,
    impl AsyncWrite + Send + Unpin + 'static,
) {
    rmcp::transport::stdio_pipes()
}
