//! Tests of vectors that grow.
