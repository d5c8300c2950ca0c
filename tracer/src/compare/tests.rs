//! Tests of whole comparisons.
