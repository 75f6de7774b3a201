//! The stores of Ravel: in memory and SQLite, under one conformance suite.
