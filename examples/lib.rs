//! Examples of embedding process sessions; each file beside this one is a program and a test.
//!
//! This library holds nothing but the README of the project, so that its snippets are compiled and run as tests.
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
