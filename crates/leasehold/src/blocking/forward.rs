//! The table of forwarded methods: each row gives a blocking method to its async counterpart.
//!
//! Invariant: a row adds no behavior. A forwarded method has the name, the arguments and the errors of the async method,
//! and converts only guards and handles.
//!
//! # How it works
//! A row is a summary and a signature after one of these words:
//!
//! | word | the method |
//! |---|---|
//! | `wait` | parks the thread, and converts the value of the result |
//! | `attempt` | parks the thread, and converts the guard of a result of an option |
//! | `until` | parks the thread, and converts the value |
//! | `get` | returns at once, and converts the value |
//! | `set` | returns the handle or builder with another setting |

/// Writes the blocking methods of one type, inside of its `impl`. The type is a tuple struct around the async type.
macro_rules! forward {
    ($type:ident as $twin:path;
     $($(#[$meta:meta])* $word:ident fn $name:ident $arguments:tt $(-> $output:ty)?;)*) => {
        $($crate::blocking::forward::method! {
            $word $type, [stringify!($type), stringify!($twin)], [$(#[$meta])*],
            $name $arguments $arguments $(-> $output)?
        })*
    };
}

/// Writes one method of [`forward`].
macro_rules! method {
    (wait $type:ident, $twin:tt, $meta:tt, $name:ident $arguments:tt $receiver:tt -> $output:ty) => {
        $crate::blocking::forward::parked!($twin, $meta, $name $arguments -> $output, |call| call.map(From::from));
    };
    (attempt $type:ident, $twin:tt, $meta:tt, $name:ident $arguments:tt $receiver:tt -> $output:ty) => {
        $crate::blocking::forward::parked!(
            $twin, $meta, $name $arguments -> $output, |call| call.map(|held| held.map(From::from))
        );
    };
    (until $type:ident, $twin:tt, $meta:tt, $name:ident $arguments:tt $receiver:tt -> $output:ty) => {
        $crate::blocking::forward::parked!($twin, $meta, $name $arguments -> $output, |call| call);
    };
    (get $type:ident, [$own:expr, $path:expr], [$($meta:tt)*],
     $name:ident (& $self:ident $(, $argument:ident: $kind:ty)*) $receiver:tt -> $output:ty) => {
        $($meta)*
        #[doc = concat!("See [`", $own, "::", stringify!($name), "`](", $path, "::", stringify!($name), ").")]
        #[must_use]
        #[allow(clippy::useless_conversion, reason = "some rows return values that both APIs have")]
        pub fn $name(&$self $(, $argument: $kind)*) -> $output {
            $self.0.$name($($argument),*).into()
        }
    };
    (set $type:ident, [$own:expr, $path:expr], [$($meta:tt)*],
     $name:ident ($self:ident $(, $argument:ident: $kind:ty)*) $receiver:tt -> $output:ty) => {
        $($meta)*
        #[doc = concat!("See [`", $own, "::", stringify!($name), "`](", $path, "::", stringify!($name), ").")]
        #[must_use = "the setting is in the returned value"]
        pub fn $name($self $(, $argument: $kind)*) -> $output {
            Self($self.0.$name($($argument),*))
        }
    };
}

/// Writes a method that parks its thread.
macro_rules! parked {
    ($twin:tt, $meta:tt, $name:ident (& $self:ident $(, $argument:ident: $kind:ty)*) -> $output:ty,
     |$call:ident| $convert:expr) => {
        $crate::blocking::forward::parked!(
            $twin, $meta, $name, (&$self $(, $argument: $kind)*), ($self $(, $argument)*), $output, |$call| $convert
        );
    };
    ($twin:tt, $meta:tt, $name:ident ($self:ident $(, $argument:ident: $kind:ty)*) -> $output:ty,
     |$call:ident| $convert:expr) => {
        $crate::blocking::forward::parked!(
            $twin, $meta, $name, ($self $(, $argument: $kind)*), ($self $(, $argument)*), $output, |$call| $convert
        );
    };
    ([$own:expr, $path:expr], [$($meta:tt)*], $name:ident, ($($parameters:tt)*),
     ($self:ident $(, $argument:ident)*), $output:ty, |$call:ident| $convert:expr) => {
        $($meta)*
        #[doc = concat!(
            "Blocks until [`", $own, "::", stringify!($name), "`](", $path, "::", stringify!($name),
            ") is done. See there for errors and for the loss of a hold."
        )]
        ///
        /// # Panics
        /// Panics in [async code](crate::blocking#in-async-code).
        #[track_caller]
        pub fn $name($($parameters)*) -> $output {
            let $call = $crate::blocking::park::park(
                concat!($own, "::", stringify!($name)), $self.0.$name($($argument),*)
            );
            $convert
        }
    };
}

/// Writes the conversions between a blocking type and the async type that it wraps.
macro_rules! convert {
    ($type:ty = $twin:ty $(where $($generics:tt)*)?) => {
        impl$(<$($generics)*>)? From<$twin> for $type {
            fn from(twin: $twin) -> Self {
                Self(twin)
            }
        }

        impl$(<$($generics)*>)? From<$type> for $twin {
            fn from(wrapper: $type) -> Self {
                wrapper.0
            }
        }
    };
}

pub(super) use {convert, forward, method, parked};
