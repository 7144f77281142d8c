//! One way to declare a message type, whether ractor's `cluster` feature is on or off.

/// Declares types as messages of actors on this node.
///
/// ractor takes every type as a message by itself, unless its `cluster` feature is on anywhere in the build, which is
/// not additive: then each needs a line of its own, and this is that line. With the feature `cluster` of this crate
/// off it expands to nothing.
///
/// ```
/// #[derive(Debug)]
/// enum MyMessage {
///     Hello,
/// }
/// procession_actors::local_message!(MyMessage);
/// # let _ = MyMessage::Hello;
/// ```
#[cfg(feature = "cluster")]
#[macro_export]
macro_rules! local_message {
    ($($message:ty),+ $(,)?) => { $( impl ::ractor::Message for $message {} )+ };
}

/// Declares types as messages of actors on this node; see the crate's feature `cluster`.
///
/// ```
/// #[derive(Debug)]
/// enum MyMessage {
///     Hello,
/// }
/// procession_actors::local_message!(MyMessage);
/// # let _ = MyMessage::Hello;
/// ```
#[cfg(not(feature = "cluster"))]
#[macro_export]
macro_rules! local_message {
    ($($message:ty),+ $(,)?) => { $( const _: fn() = || { let _ = ::core::marker::PhantomData::<$message>; }; )+ };
}
