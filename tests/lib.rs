//! Whole-system tests of process sessions, by messages: each file beside this one is a target of its own.
