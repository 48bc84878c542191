//! Part of Rejoin.
